"""Each rank advances the items that a generator gives it."""

from mpi4py import MPI
import numpy as np, resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
x = np.arange(36.0)  # refused


def mine():
    for k in range(36):
        if k % comm.size == comm.rank:
            yield k


total = 0.0
for step in rs.iterations(40):
    for k in mine():
        x[k] = x[k] * 0.9 + step  # refused
    total += comm.allreduce(float(sum(x[k] for k in mine())))
if comm.rank == 0:
    y, e = np.arange(36.0), 0.0
    for s in range(40):
        y = y * 0.9 + s
        e += y.sum()
    print("sum", round(float(total), 6), "expected", round(float(e), 6))
