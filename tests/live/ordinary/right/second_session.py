"""session() is called again in functions, instead of handing the session on."""

import resize_lib


def reduce(x):
    return resize_lib.session().comm.allreduce(x)


def mine(n):
    rs = resize_lib.session()
    return range(rs.rank, n, rs.size)


total, factor = 0, 1
for step in resize_lib.session().iterations(45):
    factor = factor * 3 % 101
    total += reduce(sum(factor * i for i in mine(5)))
if resize_lib.session().rank == 0:
    print("sum", total, "expected", sum(10 * pow(3, k + 1, 101) for k in range(45)))
