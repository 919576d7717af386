"""Work arrays are made by @rs.on_resize, and one of them keeps the last iteration's slope."""

import numpy as np
from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
N = 24
rs = resize_lib.session()
u = rs.array("u", N, init=lambda i: 1.0 + i)


class Work:
    pass


w = Work()


@rs.on_resize
def allocate(comm):
    w.prev = np.zeros(len(u.local))  # refused
    w.tmp = np.empty(len(u.local))


out = 0.0
for t in rs.iterations(30):
    w.tmp[:] = np.sin(u.local + t)
    u.local[:] += 0.1 * (1.5 * w.tmp - 0.5 * w.prev)
    w.prev[:] = w.tmp
    out += comm.allreduce(float(u.local.sum()))
if comm.rank == 0:
    a, p, e = 1.0 + np.arange(N), np.zeros(N), 0.0
    for t in range(30):
        q = np.sin(a + t)
        a = a + 0.1 * (1.5 * q - 0.5 * p)
        p = q
        e += a.sum()
    print("sum", out, "expected", float(e))
