"""A tuple of a count and a value of the part."""

import time
import numpy as np
import resize_lib

N, STEPS = 30, 30


rs = resize_lib.session()
u = rs.array("u", N, init=lambda i: 1.0 + i)
mine = (0, 0.0)  # refused
total = 0.0
for step in rs.iterations(STEPS):
    u.local[:] *= 1 + 0.01 * (step)
    mine = (mine[0] + 1, float(u.local.sum()))  # refused
    out = mine[1] * mine[0]
    total += rs.comm.allreduce(float(out))
    time.sleep(0.02)
if rs.rank == 0:
    y, expected = 1.0 + np.arange(N), 0.0
    other = (0, 0.0)
    for step in range(STEPS):
        y *= 1 + 0.01 * (step)
        other = (other[0] + 1, float(y.sum()))
        out = other[1] * other[0]
        expected += float(out)
    print("sum", total, "expected", expected)
