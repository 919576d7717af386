"""Another file keeps totals, which are the same on all ranks."""

import resize_lib
from _series import Series

rs = resize_lib.session()
u = rs.array("u", 30, init=lambda i: 1.0 * i)
series, total = Series(), 0.0
for step in rs.iterations(40):
    u.local[:] += 1
    total += series.change(rs.comm.allreduce(u.local.sum()))
if rs.rank == 0:
    print("sum", total, "expected", 435.0 + 40 * 30)
