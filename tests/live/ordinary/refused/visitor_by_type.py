"""Visitor: fields accept a visitor that keeps totals."""

import time
import numpy as np
import resize_lib

N, STEPS = 30, 30


class Scalar:
    def __init__(self, get):
        self.get = get

    def accept(self, visitor):
        return visitor.visit_scalar(self)  # refused


class Totals:
    def __init__(self):
        self.seen = {}  # refused

    def visit_scalar(self, field):
        now = float(field.get().sum())
        was = self.seen.get(type(field), 0.0)
        self.seen[type(field)] = now
        return abs(now - was)


rs = resize_lib.session()
u = rs.array("u", N, init=lambda i: 1.0 + i)
mine = (Totals(), Scalar(lambda: u.local))
total = 0.0
for step in rs.iterations(STEPS):
    u.local[:] *= 1 + 0.01 * (step)
    out = mine[1].accept(mine[0])
    total += rs.comm.allreduce(float(out))
    time.sleep(0.02)
if rs.rank == 0:
    y, expected = 1.0 + np.arange(N), 0.0
    other = (Totals(), Scalar(lambda: y))
    for step in range(STEPS):
        y *= 1 + 0.01 * (step)
        out = other[1].accept(other[0])
        expected += float(out)
    print("sum", total, "expected", expected)
