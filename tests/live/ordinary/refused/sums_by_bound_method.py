"""Per-rank sums by a bound method under another name."""

import resize_lib

rs = resize_lib.session()
found = []  # refused
put = {"a": found.append}
for step in rs.iterations(40):
    for i in range(rs.rank, 12, rs.size):
        put["a"](i)
total = rs.comm.allreduce(sum(found))
if rs.rank == 0:
    print("sum", total, "expected", 66 * 40)
