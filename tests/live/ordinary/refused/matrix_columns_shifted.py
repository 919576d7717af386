"""Columns of a matrix shifted."""

import time
import numpy as np
import resize_lib

N, STEPS = 30, 30


class History:
    def __init__(self):
        self.h = np.zeros((2, 3))  # refused

    def push(self, *values):
        self.h[:, 1:] = self.h[:, :-1]  # refused
        self.h[:, 0] = values
        return abs(self.h[0, 0] - self.h[0, 1])


rs = resize_lib.session()
u = rs.array("u", N, init=lambda i: 1.0 + i)
mine = History()
total = 0.0
for step in rs.iterations(STEPS):
    u.local[:] *= 1 + 0.01 * (step)
    out = mine.push(u.local.sum(), step)
    total += rs.comm.allreduce(float(out))
    time.sleep(0.02)
if rs.rank == 0:
    y, expected = 1.0 + np.arange(N), 0.0
    other = History()
    for step in range(STEPS):
        y *= 1 + 0.01 * (step)
        out = other.push(y.sum(), step)
        expected += float(out)
    print("sum", total, "expected", expected)
