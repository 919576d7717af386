"""A coroutine in the old sense: values are sent into a generator that remembers them."""

import resize_lib


def averager():
    total, count, mean = 0.0, 0, None
    while True:
        value = yield mean
        total += value
        count += 1
        mean = total / count


rs = resize_lib.session()
average = averager()  # refused
next(average)  # refused
total = 0.0
for step in rs.iterations(40):
    mean = average.send(step * 2.0)
    total += rs.comm.allreduce(sum(mean for _ in range(rs.rank, 3, rs.size)))
if rs.rank == 0:
    print("sum", total, "expected", 3 * sum(float(k) for k in range(40)))
