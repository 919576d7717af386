"""zip of a generator and the iterations."""

import time
import resize_lib

rs = resize_lib.session()
total = 0
for x, step in zip((i * i for i in range(99)), rs.iterations(50)):  # refused
    total += rs.comm.allreduce(sum(x + step for _ in range(rs.rank, 5, rs.size)))
    time.sleep(0.02)
if rs.rank == 0:
    print("sum", total, "expected", 5 * sum(i * i + i for i in range(50)))
