"""Each rank advances its part of an array, through a view that a function gives."""

from mpi4py import MPI
import numpy as np, resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


def mine(a):
    n = len(a)
    return a[n * comm.rank // comm.size : n * (comm.rank + 1) // comm.size]


x = np.arange(36.0)  # refused
total = 0.0
for step in rs.iterations(40):
    part = mine(x)
    part += step  # refused
    total += comm.allreduce(float(part.sum()))
if comm.rank == 0:
    y, e = np.arange(36.0), 0.0
    for s in range(40):
        y = y + s
        e += y.sum()
    print("sum", total, "expected", float(e))
