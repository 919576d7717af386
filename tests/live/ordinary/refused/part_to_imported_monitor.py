"""A monitor in another file keeps a copy of the rank's part."""

import resize_lib
from _keeps import Monitor

rs = resize_lib.session()
u = rs.array("u", 30, init=lambda i: 1.0 * i)
monitor, total = Monitor(), 0.0  # refused
for step in rs.iterations(40):
    u.local[:] += 1
    total += rs.comm.allreduce(monitor.update(u.local))
if rs.rank == 0:
    print("sum", total, "expected", 39.0 * 30)
