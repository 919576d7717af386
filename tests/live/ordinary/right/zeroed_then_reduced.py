"""Each rank fills its part of a new array, and all get the sum."""

from mpi4py import MPI
import numpy as np, resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


def lohi(n):
    return n * comm.rank // comm.size, n * (comm.rank + 1) // comm.size


x = np.arange(36.0)
total = 0.0
for step in rs.iterations(40):
    lo, hi = lohi(36)
    part = np.zeros(36)
    view = part[lo:hi]
    view += x[lo:hi] * 0.9 + step
    comm.Allreduce(MPI.IN_PLACE, part)
    x = part
    total += float(x.sum())
if comm.rank == 0:
    y, e = np.arange(36.0), 0.0
    for s in range(40):
        y = y * 0.9 + s
        e += y.sum()
    print("sum", round(float(total), 6), "expected", round(float(e), 6))
