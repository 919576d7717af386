"""Per-rank sums in a default argument."""

import resize_lib

rs = resize_lib.session()


def add(x, into=[0]):  # noqa: B006  # refused
    into[0] += x  # refused
    return into[0]


for step in rs.iterations(40):
    for i in range(rs.rank, 12, rs.size):
        add(i)
total = rs.comm.allreduce(add(0))
if rs.rank == 0:
    print("sum", total, "expected", 66 * 40)
