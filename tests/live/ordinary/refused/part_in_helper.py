"""A function keeps the rank's part in a default argument."""

from mpi4py import MPI
import numpy as np, resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


def part(n, cache={}):  # refused
    if n not in cache:
        cache[n] = list(range(comm.rank, n, comm.size))  # refused
    return cache[n]


total = 0
for step in rs.iterations(40):
    total += comm.allreduce(sum(part(24)) * step)
if comm.rank == 0:
    print("sum", total, "expected", 276 * sum(range(40)))
