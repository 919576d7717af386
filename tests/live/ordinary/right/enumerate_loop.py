"""enumerate around the iterations."""

import time

import resize_lib

rs = resize_lib.session()
total = 0
for i, step in enumerate(rs.iterations(50)):
    total += rs.comm.allreduce(sum(i * k + step for k in range(rs.rank, 6, rs.size)))
    time.sleep(0.02)
if rs.rank == 0:
    print("sum", total, "expected", sum(15 * i + 6 * i for i in range(50)))
