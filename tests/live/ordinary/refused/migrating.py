"""Particles that move between the ranks in each iteration."""

from mpi4py import MPI
import numpy as np, resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()

mine = list(range(60)) if comm.rank == 0 and not rs.spawned else []  # refused
moved = 0
for step in rs.iterations(40):
    out = [[] for _ in range(comm.size)]
    for p in mine:
        out[(p + step) % comm.size].append(p)
    mine = [p for part in comm.alltoall(out) for p in part]  # refused
    moved += comm.allreduce(sum(mine))
count = comm.allreduce(len(mine))
if comm.rank == 0:
    print("sum", moved + count, "expected", 40 * sum(range(60)) + 60)
