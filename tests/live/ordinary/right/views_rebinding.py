"""Views of views, and an array that the loop replaces."""

import numpy as np

import resize_lib


a = np.zeros(20)
b = a[5:15]
c = b[::2]
rs = resize_lib.session()
x = rs.array("x", 24)
total = 0
for step in rs.iterations(50):
    x.local += 1
    c += 1
    b[step % 10] += 2
    if step == 20:
        a = a.copy()
        b = a[5:15]
        c = b[1::2]
    value = float(a.sum() + 3 * c.sum())
    total += rs.comm.bcast(value, rs.size - 1)


if rs.rank == 0:
    print("sum", total, "expected", 22410.0)
