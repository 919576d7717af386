"""np.empty buffers for Allgatherv and Allreduce, with whatever was in the memory."""

import numpy as np
from mpi4py import MPI

import resize_lib

N = 37
rs = resize_lib.session()
whole = np.empty(N)
both = np.empty(2)
x = rs.array("x", N, init=lambda i: 1.0 + i)
for step in rs.iterations(50):
    mine = x.local
    counts = rs.comm.allgather(len(mine))
    rs.comm.Allgatherv(mine, [whole, counts])
    rs.comm.Allreduce(np.array([mine.sum(), len(mine)], dtype=float), both, op=MPI.SUM)
    mine += 0.01 * whole[::-1][x.indices] + both[0] / both[1] * 1e-3
total = rs.comm.allreduce(float(x.local.sum()))
if rs.rank == 0:
    y = np.arange(1.0, N + 1)
    for _ in range(50):
        y = y + 0.01 * y[::-1] + y.mean() * 1e-3
    print("sum", total, "expected", float(y.sum()))
