"""Functional: a NamedTuple made anew by a method."""

import time
import numpy as np
from typing import NamedTuple
import resize_lib

N, STEPS = 30, 30


class State(NamedTuple):
    mass: float
    out: float

    def after(self, part):
        now = float(part.sum())
        return State(now, abs(now - self.mass))


rs = resize_lib.session()
u = rs.array("u", N, init=lambda i: 1.0 + i)
mine = State(0.0, 0.0)  # refused
total = 0.0
for step in rs.iterations(STEPS):
    u.local[:] *= 1 + 0.01 * (step)
    mine = mine.after(u.local)  # refused
    out = mine.out
    total += rs.comm.allreduce(float(out))
    time.sleep(0.02)
if rs.rank == 0:
    y, expected = 1.0 + np.arange(N), 0.0
    other = State(0.0, 0.0)
    for step in range(STEPS):
        y *= 1 + 0.01 * (step)
        other = other.after(y)
        out = other.out
        expected += float(out)
    print("sum", total, "expected", expected)
