"""Each rank advances its part of an array, the middle one of three views."""

from mpi4py import MPI
import numpy as np, resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


def lohi(n):
    return n * comm.rank // comm.size, n * (comm.rank + 1) // comm.size


x = np.arange(36.0)  # refused
total = 0.0
for step in rs.iterations(40):
    lo, hi = lohi(36)
    before, mine, after = x[:lo], x[lo:hi], x[hi:]
    mine *= 0.9  # refused
    mine += step  # refused
    total += comm.allreduce(float(mine.sum()))
if comm.rank == 0:
    y, e = np.arange(36.0), 0.0
    for s in range(40):
        y = y * 0.9 + s
        e += y.sum()
    print("sum", round(float(total), 6), "expected", round(float(e), 6))
