"""np.roll of a short history."""

import time
import resize_lib
import numpy as np

rs = resize_lib.session()
u = rs.array("u", 30, init=lambda i: 1.0 * i)
total = 0.0
hist = np.zeros(3)  # refused
for step in rs.iterations(36):
    u.local[:] += 1
    hist = np.roll(hist, 1)  # refused
    hist[0] = u.local.sum()
    change = float(abs(hist[0] - hist[1]))
    total += rs.comm.allreduce(change)
    time.sleep(0.02)
if rs.rank == 0:
    print("sum", total, "expected", 435 + 30.0 * 36)
