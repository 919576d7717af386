"""Each rank continues with a range of an array that is as long as its part."""

import numpy as np
import resize_lib

rs = resize_lib.session()
u = rs.array("u", 24, init=lambda i: i * 1.0)

left = np.zeros(48)  # refused
for step in rs.iterations(40):
    a = u.local
    n = len(a)
    a += left[:n] * 0.5
    left[:n] = a - left[:n]  # refused
got = rs.comm.allreduce(float((u.local * u.indices).sum()))
if rs.rank == 0:
    x, l = np.arange(24) * 1.0, np.zeros(24)
    for s in range(40):
        x = x + l * 0.5
        l = x - l
    print("sum", got, "expected", float(x @ np.arange(24)))
