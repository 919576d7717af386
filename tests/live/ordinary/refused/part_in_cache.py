"""A function keeps the rank's part in a cache."""

from mpi4py import MPI
import numpy as np, resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()

import functools


@functools.lru_cache  # refused
def part(n):  # refused
    return list(range(comm.rank, n, comm.size))


total = 0
for step in rs.iterations(40):
    total += comm.allreduce(sum(part(24)) * step)
if comm.rank == 0:
    print("sum", total, "expected", 276 * sum(range(40)))
