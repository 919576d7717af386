"""Each rank advances its items with take and put."""

from mpi4py import MPI
import numpy as np, resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


def lohi(n):
    return n * comm.rank // comm.size, n * (comm.rank + 1) // comm.size


x = np.arange(36.0)  # refused
total = 0.0
for step in rs.iterations(40):
    idx = np.arange(*lohi(36))
    x.put(idx, x.take(idx) * 0.9 + step)  # refused
    total += comm.allreduce(float(x.take(idx).sum()))
if comm.rank == 0:
    y, e = np.arange(36.0), 0.0
    for s in range(40):
        y = y * 0.9 + s
        e += y.sum()
    print("sum", round(float(total), 6), "expected", round(float(e), 6))
