"""A function of another file keeps the sum of the rank's part in a dict."""

import resize_lib
from _keeps import change

rs = resize_lib.session()
u = rs.array("u", 30, init=lambda i: 1.0 * i)
total = 0.0
for step in rs.iterations(40):
    u.local[:] += 1
    total += rs.comm.allreduce(change("u", u.local.sum()))
if rs.rank == 0:
    print("sum", total, "expected", 39.0 * 30)
