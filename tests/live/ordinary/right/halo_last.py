"""Ghost cells are exchanged at the end of each iteration, as many codes do."""

import time

import numpy as np

import resize_lib

rs = resize_lib.session()
u = rs.cartesian("u", (20, 16), halo=1, periodic=True, init=lambda i, j: i * 16.0 + j)
u.exchange()
for step in rs.iterations(50):
    a = u.local
    new = 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]) + 0.01 * step
    a[1:-1, 1:-1] = new
    u.exchange()
    time.sleep(0.02)
whole = u.gather()
if rs.rank == 0:
    b = np.arange(320.0).reshape(20, 16)
    for step in range(50):
        b = 0.25 * sum(np.roll(b, s, axis) for axis in (0, 1) for s in (1, -1)) + 0.01 * step
    weights = np.arange(320.0).reshape(20, 16) % 7
    print("sum", float((whole * weights).sum()), "expected", float((b * weights).sum()))
