"""Views of scratch arrays, taken in each iteration and filled by out= and by [:]."""

import numpy as np
import resize_lib

rs = resize_lib.session()
u = rs.array("u", 24, init=lambda i: i * 1.0)
work, more = np.empty(48), np.zeros((2, 48))
for step in rs.iterations(40):
    a = u.local
    n = len(a)
    t, v, row = work[:n], more[1, :n], more[0]
    np.multiply(a, 0.5, out=t)
    v[:] = t
    row[:n] = 1
    t += row[:n]
    a[:] = t + v
got = rs.comm.allreduce(float((u.local * u.indices).sum()))
if rs.rank == 0:
    print("sum", got, "expected", float((np.arange(24) + 40.0) @ np.arange(24)))
