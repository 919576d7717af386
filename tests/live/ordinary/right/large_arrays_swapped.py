"""Two arrays, together larger than what may travel, change places."""

import os

os.environ["DQ_CARRY_BYTES"] = "1000000"
import numpy as np
import resize_lib

rs = resize_lib.session()
N = 41
a, b = np.zeros(200000), np.zeros(200000)
a[:] = 5
b[:] = 7
count = 0
for step in rs.iterations(N):
    a, b = b, a
    count += int(a[0])
    g = rs.comm.allreduce(1)
s = rs.comm.allreduce(count)
if rs.rank == 0:
    print(f"sum {s} expected {(21 * 7 + 20 * 5) * rs.size}")
