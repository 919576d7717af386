"""One half of a buffer is written by ranges of the ranks, the other, of the iteration before, is read."""

from mpi4py import MPI
import numpy as np
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


def lohi(n):
    return n * comm.rank // comm.size, n * (comm.rank + 1) // comm.size


buf = np.zeros(48)  # refused
total = 0.0
for step in rs.iterations(40):
    lo, hi = lohi(24)
    now, old = 24 * (step % 2), 24 * ((step + 1) % 2)
    buf[now + lo : now + hi] = np.arange(lo, hi) * (step + 1.0)  # refused
    total += comm.allreduce(float(buf[old + lo : old + hi].sum()))
if comm.rank == 0:
    print("sum", total, "expected", 276.0 * sum(range(40)))
