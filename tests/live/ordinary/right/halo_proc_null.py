"""Ghost values made once; MPI.PROC_NULL leaves those of the first rank and the last as they are."""

import numpy as np
from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
N = 36
rs = resize_lib.session()
u = rs.array("u", N, init=lambda i: (i % 7) * 1.0 + 1)
left, right = np.zeros(1), np.zeros(1)
for it in rs.iterations(45):
    a = u.local
    up = comm.rank - 1 if comm.rank > 0 else MPI.PROC_NULL
    down = comm.rank + 1 if comm.rank + 1 < comm.size else MPI.PROC_NULL
    comm.Sendrecv(a[-1:].copy(), down, 1, left, up, 1)
    comm.Sendrecv(a[:1].copy(), up, 2, right, down, 2)
    f = np.concatenate([left, a, right])
    a[:] = (f[:-2] + 2 * f[1:-1] + f[2:]) / 4
got = comm.allreduce(float(u.local.sum()))
if comm.rank == 0:
    x = (np.arange(N) % 7) * 1.0 + 1
    for it in range(45):
        f = np.concatenate([[0.0], x, [0.0]])
        x = (f[:-2] + 2 * f[1:-1] + f[2:]) / 4
    print("sum", got, "expected", float(x.sum()))
