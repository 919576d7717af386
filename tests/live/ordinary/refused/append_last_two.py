"""Np.append and slicing of the last two values."""

import time
import numpy as np
import resize_lib

N = 30


rs = resize_lib.session()
u = rs.array("u", N, init=lambda i: 1.0 * i)
total = 0.0
h = np.zeros(2)  # refused
for step in rs.iterations(30):
    u.local[:] += 1
    h = np.append(h, u.local.sum())[-2:]  # refused
    out = float(abs(np.diff(h)[0]))
    total += rs.comm.allreduce(out)
    time.sleep(0.02)
if rs.rank == 0:
    print("sum", total, "expected", 435 + 30.0 * 30)
