"""Each rank advances its part of an array in place, and all get the whole in buffers."""

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
    part = x[lo:hi]
    part[:] = part * 0.9 + step
    counts = comm.allgather(hi - lo)
    whole = np.empty(36)
    comm.Allgatherv(part, [whole, counts])
    x[:] = whole
    total += float(x.sum())
if comm.rank == 0:
    y, e = np.arange(36.0), 0.0
    for s in range(40):
        y = y * 0.9 + s
        e += y.sum()
    print("sum", round(float(total), 6), "expected", round(float(e), 6))
