"""insert and pop of a short history."""

import time
import resize_lib


rs = resize_lib.session()
u = rs.array("u", 30, init=lambda i: 1.0 * i)
total = 0.0
hist = [0.0, 0.0]  # refused
for step in rs.iterations(36):
    u.local[:] += 1
    hist.insert(0, float(u.local.sum()))  # refused
    hist.pop()
    change = abs(hist[0] - hist[1])
    total += rs.comm.allreduce(change)
    time.sleep(0.02)
if rs.rank == 0:
    print("sum", total, "expected", 435 + 30.0 * 36)
