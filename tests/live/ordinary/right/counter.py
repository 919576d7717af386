"""A number that each iteration adds to."""

import time

import resize_lib

rs = resize_lib.session()
comm = rs.comm
count = 0
total = 0
for step in rs.iterations(50):
    count += 1
    total += comm.allreduce(sum(i * count for i in range(comm.rank, 12, comm.size)))
    time.sleep(0.02)
if rs.rank == 0:
    print("sum", total, "expected", 66 * 50 * 51 // 2)
