"""Work per phase is measured in an object; only printed."""

import sys
import time
import numpy as np
import resize_lib
from _file_of_timers import Timers

rs = resize_lib.session()
u = rs.array("u", 30, init=lambda i: 1.0 * i)
timers, total = Timers(), 0.0
for step in rs.iterations(36):
    with timers("compute"):
        u.local[:] = 0.9 * u.local + step
    with timers("reduce"):
        total += rs.comm.allreduce(float(u.local.sum()))
    time.sleep(0.02)
print(timers.report(), file=sys.stderr)
if rs.rank == 0:
    x, e = np.arange(30.0), 0.0
    for s in range(36):
        x = 0.9 * x + s
        e += x.sum()
    print("sum", round(total, 6), "expected", round(float(e), 6))
