"""A text of numbers, the last two are parsed."""

import time
import numpy as np
import resize_lib

N, STEPS = 30, 30


rs = resize_lib.session()
u = rs.array("u", N, init=lambda i: 1.0 + i)
mine = "0.0"  # refused
total = 0.0
for step in rs.iterations(STEPS):
    u.local[:] *= 1 + 0.01 * (step)
    mine = (mine + f" {float(u.local.sum())!r}")[-60:]  # refused
    a, b = map(float, mine.split()[-2:])
    out = abs(b - a)
    total += rs.comm.allreduce(float(out))
    time.sleep(0.02)
if rs.rank == 0:
    y, expected = 1.0 + np.arange(N), 0.0
    other = "0.0"
    for step in range(STEPS):
        y *= 1 + 0.01 * (step)
        other = (other + f" {float(y.sum())!r}")[-60:]
        a, b = map(float, other.split()[-2:])
        out = abs(b - a)
        expected += float(out)
    print("sum", total, "expected", expected)
