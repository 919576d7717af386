"""itertools.pairwise, made before the loop: it has no position that could be copied."""

import itertools

import resize_lib

rs = resize_lib.session()
pairs = itertools.pairwise(range(0, 300, 2))  # refused
total = 0
for step in rs.iterations(40):
    a, b = next(pairs)
    total += rs.comm.allreduce(sum(a * b for _ in range(rs.rank, 3, rs.size)))
if rs.rank == 0:
    print("sum", total, "expected", 3 * sum(4 * k * (k + 1) for k in range(40)))
