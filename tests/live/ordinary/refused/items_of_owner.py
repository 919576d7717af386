"""The items that a rank owns are summed, and compared with the sum of the last iteration."""

import time
import numpy as np
import resize_lib

N, STEPS = 30, 30

rs = resize_lib.session()
comm = rs.comm
u = rs.array("u", N, init=1.0)
owner = lambda k: k % comm.size
old, total = 0.0, 0.0  # refused
for step in rs.iterations(STEPS):
    u.local[:] = step + 1
    now = 0.0
    for k, x in enumerate(u.allgather()):
        if owner(k) == comm.rank:
            now += float(x)
    total += comm.allreduce(abs(now - old))
    old = now  # refused
    time.sleep(0.02)
if rs.rank == 0:
    print("sum", total, "expected", 30.0 * 30)
