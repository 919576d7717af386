"""Each rank marks some of its items in a list, and counts those that are marked."""

from mpi4py import MPI
import numpy as np
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
seen = [False] * 30  # refused
total = 0
for step in rs.iterations(30):
    for i in range(comm.rank, 30, comm.size):
        if (i * 7 + step) % 30 == 0:
            seen[i] = True  # refused
    total += comm.allreduce(sum(seen[comm.rank :: comm.size]))
if comm.rank == 0:
    print("sum", total, "expected", sum(s + 1 for s in range(30)))
