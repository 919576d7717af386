"""Forces are an attribute, computed at the start of each step; the class is in another file."""

import time
import numpy as np
import resize_lib
from _file_of_forces import System

rs = resize_lib.session()
s = System(rs, 20)
for step in rs.iterations(36):
    s.compute_forces()
    s.drift(0.05)
    time.sleep(0.02)
total = rs.comm.allreduce(float((s.x.local * s.x.indices).sum()))
if rs.rank == 0:
    x = np.arange(20.0)
    for _ in range(36):
        x = x - 0.05 * (x - 10.0)
    print("sum", round(total, 6), "expected", round(float(x @ np.arange(20)), 6))
