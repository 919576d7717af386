"""Buffers as long as the longest part, which the ranks agreed on before the loop."""

import numpy as np
from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
data = np.arange(30)


def part():
    return np.array_split(data, comm.size)[comm.rank]


count = len(part())
longest = comm.allreduce(count, op=MPI.MAX)  # refused
total = 0
for step in rs.iterations(60):
    mine = part()[:longest]
    padded = np.zeros(longest, dtype=int)
    padded[: len(mine)] = mine
    total += comm.allreduce(int(padded.sum()))
if comm.rank == 0:
    print("sum", total, "expected", 435 * 60)
