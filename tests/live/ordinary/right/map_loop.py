"""map over the iterations and data."""

import time
import resize_lib

rs = resize_lib.session()
data = [(i * 31) % 47 for i in range(60)]
total = 0
for x in map(lambda step, x: x + step, rs.iterations(50), data):
    total += rs.comm.allreduce(sum(x for _ in range(rs.rank, 5, rs.size)))
    time.sleep(0.02)
if rs.rank == 0:
    print("sum", total, "expected", 5 * sum(data[i] + i for i in range(50)))
