"""A list of functions that grows in the loop."""

import resize_lib

rs = resize_lib.session()
filters = [lambda x: x + 1]  # refused
total = 0
for step in rs.iterations(40):
    if step % 8 == 3:
        filters.append(lambda x, k=step: x * 2 % (k + 50))  # refused
    value = step
    for f in filters:
        value = f(value)
    total += rs.comm.allreduce(sum(value for _ in range(rs.rank, 3, rs.size)))
if rs.rank == 0:
    expected = 0
    for step in range(40):
        value = step + 1
        for k in range(3, step + 1, 8):
            value = value * 2 % (k + 50)
        expected += 3 * value
    print("sum", total, "expected", expected)
