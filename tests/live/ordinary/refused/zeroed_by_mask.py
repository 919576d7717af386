"""Each rank sets values of its range to zero through a view, by a mask."""

from mpi4py import MPI
import numpy as np
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
x = np.arange(30.0)  # refused
total = 0.0
for step in rs.iterations(30):
    lo, hi = 30 * comm.rank // comm.size, 30 * (comm.rank + 1) // comm.size
    part = x[lo:hi]
    part[(np.arange(lo, hi) * 7 + step) % 30 == 0] = 0.0  # refused
    total += comm.allreduce(float(x[lo:hi].sum()))
if comm.rank == 0:
    y, e = np.arange(30.0), 0.0
    for s in range(30):
        y[(np.arange(30) * 7 + s) % 30 == 0] = 0.0
        e += float(y.sum())
    print("sum", total, "expected", e)
