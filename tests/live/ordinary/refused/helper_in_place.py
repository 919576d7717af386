"""Each rank advances its part of an array in a function that is given the view."""

from mpi4py import MPI
import numpy as np, resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


def lohi(n):
    return n * comm.rank // comm.size, n * (comm.rank + 1) // comm.size


x = np.arange(36.0)  # refused


def advance(v, s):
    v *= 0.9  # refused
    v += s  # refused


total = 0.0
for step in rs.iterations(40):
    lo, hi = lohi(36)
    advance(x[lo:hi], step)  # refused
    total += comm.allreduce(float(x[lo:hi].sum()))
if comm.rank == 0:
    y, e = np.arange(36.0), 0.0
    for s in range(40):
        y = y * 0.9 + s
        e += y.sum()
    print("sum", round(float(total), 6), "expected", round(float(e), 6))
