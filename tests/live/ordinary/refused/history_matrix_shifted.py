"""Numpy: rolling a history matrix in place, last row by -1."""

import time
import numpy as np
import resize_lib

N = 30


rs = resize_lib.session()
u = rs.array("u", N, init=lambda i: 1.0 * i)
total = 0.0
h = np.zeros((3, 2))  # refused
for step in rs.iterations(30):
    u.local[:] += 1
    h[:-1] = h[1:]  # refused
    h[-1] = step, u.local.sum()
    out = float(abs(h[-1, 1] - h[-2, 1]))
    total += rs.comm.allreduce(out)
    time.sleep(0.02)
if rs.rank == 0:
    print("sum", total, "expected", 435 + 30.0 * 30)
