"""Tuples that are bound anew, and a swap of two names."""

import resize_lib

rs = resize_lib.session()
pair = (0, 1)
low, high = 1, 1000
total = 0
for step in rs.iterations(40):
    pair = (pair[1], pair[0] + pair[1])
    low, high = high, low
    total += rs.comm.allreduce(sum(pair[0] % 997 * low for _ in range(rs.rank, 6, rs.size)))
if rs.rank == 0:
    a, b, expected = 0, 1, 0
    for step in range(40):
        a, b = b, a + b
        expected += 6 * (a % 997) * (1000 if step % 2 == 0 else 1)
    print("sum", total, "expected", expected)
