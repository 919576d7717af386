"""What a list had before it gets the rank's part of this iteration."""

import resize_lib

rs = resize_lib.session()
u = rs.array("u", 24, init=lambda i: i * 1.0)
cur, total = [0.0] * 48, 0.0  # refused
for step in rs.iterations(40):
    n = len(u.local)
    old = cur[:n]
    cur[:n] = list(u.local)  # refused
    total += rs.comm.allreduce(sum(old))
if rs.rank == 0:
    print("sum", total, "expected", 276.0 * 39)
