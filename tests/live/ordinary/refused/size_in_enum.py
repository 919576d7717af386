"""The number of ranks is a member of an Enum."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


import enum


class Place(enum.IntEnum):
    SIZE = comm.size  # refused
    RANK = 0


total = 0
for step in rs.iterations(40):
    total += comm.allreduce(sum(step * i for i in range(comm.rank, 24, Place.SIZE)))
if comm.rank == 0:
    print("sum", total, "expected", 276 * 780)
