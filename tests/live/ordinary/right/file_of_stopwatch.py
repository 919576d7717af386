"""A stopwatch of another file; its mean over the ranks is logged at the end."""

import sys
import time
import resize_lib
from _file_of_stopwatch import Stopwatch

rs = resize_lib.session()
u = rs.array("u", 30, init=lambda i: 1.0 * i)
watch, total = Stopwatch(), 0.0
for step in rs.iterations(36):
    watch.start()
    u.local[:] += 1
    watch.stop()
    total += rs.comm.allreduce(float(u.local.sum()))
    time.sleep(0.02)
mean = rs.comm.allreduce(watch.elapsed) / rs.size
if rs.rank == 0:
    print(mean, file=sys.stderr)
    print("sum", total, "expected", sum(435.0 + 30 * (k + 1) for k in range(36)))
