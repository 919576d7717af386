"""A task farm's function keeps its results in a dict, which the ranks put together after it."""

import time
from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
memo = {}  # refused


def f(c):
    time.sleep(0.01)
    memo[c] = c * c % 17  # refused
    return memo[c]


rs.map(f, range(60))
every = {}
for part in comm.allgather(memo):
    every.update(part)
if comm.rank == 0:
    print(
        "sum", sum(every.values()) + len(every), "expected", sum(c * c % 17 for c in range(60)) + 60
    )
