"""The loop is wrapped into a generator of the program's own."""

import time

import resize_lib

rs = resize_lib.session()


def steps(n):
    yield from rs.iterations(n)


total, last = 0, 1
for step in steps(50):
    last = last * 5 % 1013
    total += rs.comm.allreduce(sum(last * i for i in range(rs.rank, 5, rs.size)))
    time.sleep(0.02)
if rs.rank == 0:
    print("sum", total, "expected", sum(10 * pow(5, k, 1013) for k in range(1, 51)))
