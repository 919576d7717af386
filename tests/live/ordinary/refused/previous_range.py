"""Half of the part is kept in a range of an array, for the next iteration."""

import numpy as np
import resize_lib

rs = resize_lib.session()
u = rs.array("u", 24, init=lambda i: i * 1.0)
pool = np.zeros(96)  # refused

for step in rs.iterations(40):
    a = u.local
    n = len(a)
    b = pool[24 : 24 + n] + a
    pool[24 : 24 + n] = a * 0.5  # refused
    a[:] = b * 0.7
got = rs.comm.allreduce(float((u.local * u.indices).sum()))
if rs.rank == 0:
    x, l = np.arange(24) * 1.0, np.zeros(24)
    for s in range(40):
        b = l + x
        l = x * 0.5
        x = b * 0.7
    print("sum", got, "expected", float(x @ np.arange(24)))
