"""An implicit step: the right-hand side is copied between an outer loop and an inner one."""

import numpy as np
import resize_lib

N = 24
rs = resize_lib.session()
u = rs.cartesian("u", (N,), halo=1, init=lambda i: np.sin(i * 0.3))
b = rs.array("b", N)
for t in rs.iterations(4):
    b.local[:] = u.interior
    for k in rs.iterations(8):
        a = u.exchange()
        u.interior[:] = (b.local + 0.2 * (a[:-2] + a[2:])) / 1.4
w = u.gather()
if rs.rank == 0:
    v = np.sin(np.arange(N) * 0.3)
    for t in range(4):
        r = v.copy()
        for k in range(8):
            p = np.pad(v, 1)
            v = (r + 0.2 * (p[:-2] + p[2:])) / 1.4
    print("sum", float(w @ np.arange(N)), "expected", float(v @ np.arange(N)))
