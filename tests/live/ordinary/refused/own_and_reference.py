"""A function advances the rank's range in the loop, and rank 0's copy for comparison."""

from mpi4py import MPI
import numpy as np
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


def lohi(n):
    return n * comm.rank // comm.size, n * (comm.rank + 1) // comm.size


def advance(x, lo, hi, step):
    x[lo:hi] = x[lo:hi] * 0.9 + step


x, total = np.arange(24.0), 0.0  # refused
for step in rs.iterations(40):
    lo, hi = lohi(24)
    advance(x, lo, hi, step)  # refused
    total += comm.allreduce(float(x[lo:hi].sum()))
if comm.rank == 0:
    y, e = np.arange(24.0), 0.0
    for s in range(40):
        advance(y, 0, 24, s)
        e += y.sum()
    print("sum", total, "expected", float(e))
