"""Each rank keeps the sum of its part from the last iteration, and compares."""

import numpy as np
from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
u = rs.array("u", 40, init=lambda i: i * 1.0)
before = 0.0  # refused: on one rank
drift = []
for k in rs.iterations(40):
    u.local[:] = 0.9 * u.local + k
    now = float(u.local.sum())
    drift.append(comm.allreduce(now - before) ** 2)
    before = now  # refused
if comm.rank == 0:
    v, b, e = np.arange(40.0), 0.0, 0
    for k in range(40):
        v = 0.9 * v + k
        e += (v.sum() - b) ** 2
        b = v.sum()
    print("sum", sum(drift), "expected", e)
