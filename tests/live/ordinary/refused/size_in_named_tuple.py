"""Rank and size in a NamedTuple from before the loop."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
from typing import NamedTuple


class World(NamedTuple):
    rank: int
    size: int


world = World(comm.rank, comm.size)  # refused
total = 0
for step in rs.iterations(40):
    total += comm.allreduce(sum(i * step for i in range(comm.rank, 24, world.size)))
if comm.rank == 0:
    print("sum", total, "expected", 276 * 780)
