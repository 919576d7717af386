"""Each rank advances its items in a function that map calls."""

from mpi4py import MPI
import numpy as np, resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


def lohi(n):
    return n * comm.rank // comm.size, n * (comm.rank + 1) // comm.size


x = np.arange(36.0)  # refused
total = 0.0
for step in rs.iterations(40):

    def tick(k):
        x[k] = x[k] * 0.9 + step  # refused
        return x[k]

    total += comm.allreduce(float(sum(map(tick, range(*lohi(36))))))
if comm.rank == 0:
    y, e = np.arange(36.0), 0.0
    for s in range(40):
        y = y * 0.9 + s
        e += y.sum()
    print("sum", round(float(total), 6), "expected", round(float(e), 6))
