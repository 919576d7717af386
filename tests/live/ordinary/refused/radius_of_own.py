"""Trust region: each rank's own radius shrinks when its part's error is large, grows otherwise; the least counts."""

import time
import numpy as np
from mpi4py import MPI
import resize_lib

N = 30


def radius_of(errors, radius):
    worst = float(errors.max(initial=0.0))
    return min(2 * radius, 1.0 / (1.0 + worst))


rs = resize_lib.session()
u = rs.array("u", N, init=lambda i: 5 + np.sin(i))
radius, path = 0.001, 0.0  # refused
for step in rs.iterations(30):
    radius = radius_of(u.local, radius)  # refused
    path += rs.comm.allreduce(radius, MPI.MIN)
    u.local[:] *= 1.02
    time.sleep(0.02)
if rs.rank == 0:
    y, r, e = 5 + np.sin(np.arange(N)), 0.001, 0.0
    for step in range(30):
        r = radius_of(y, r)
        e += r
        y *= 1.02
    print("sum", path, "expected", e)
