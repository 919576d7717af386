"""The ghosts of a periodic grid are exchanged at the end of each iteration, updated in place."""

import time

import numpy as np

import resize_lib

rs = resize_lib.session()
SHAPE = (24, 24)
u = rs.cartesian("u", SHAPE, halo=1, periodic=True, init=lambda i, j: i * 24.0 + j % 5)
for step in rs.iterations(60):
    if step == 0:
        u.exchange()
    a = u.local
    new = 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])
    a[1:-1, 1:-1] = new
    u.exchange()
    time.sleep(0.02)
got = u.gather()
if rs.rank == 0:
    weights = np.arange(24.0 * 24.0).reshape(SHAPE)
    x = np.fromfunction(lambda i, j: i * 24.0 + j % 5, SHAPE)
    for _ in range(60):
        x = 0.25 * (np.roll(x, 1, 0) + np.roll(x, -1, 0) + np.roll(x, 1, 1) + np.roll(x, -1, 1))
    print("sum", float((got * weights).sum()), "expected", float((x * weights).sum()))
