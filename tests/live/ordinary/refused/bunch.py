"""A dict whose attributes are items."""

import time
import numpy as np
import resize_lib

N, STEPS = 30, 30


class Bunch(dict):
    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__


rs = resize_lib.session()
u = rs.array("u", N, init=lambda i: 1.0 + i)
mine = Bunch(mass=0.0)  # refused
total = 0.0
for step in rs.iterations(STEPS):
    u.local[:] *= 1 + 0.01 * (step)
    now = float(u.local.sum())
    out = abs(now - mine.mass)
    mine.mass = now
    total += rs.comm.allreduce(float(out))
    time.sleep(0.02)
if rs.rank == 0:
    y, expected = 1.0 + np.arange(N), 0.0
    other = Bunch(mass=0.0)
    for step in range(STEPS):
        y *= 1 + 0.01 * (step)
        now = float(y.sum())
        out = abs(now - other.mass)
        other.mass = now
        expected += float(out)
    print("sum", total, "expected", expected)
