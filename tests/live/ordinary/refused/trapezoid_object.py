"""Trapezoidal rule in time: a class keeps the last value."""

import time
import resize_lib


class Trapezoid:
    def __init__(self):
        self.integral, self.last = 0.0, None  # refused

    def add(self, value):
        if self.last is not None:
            self.integral += 0.5 * (self.last + value)
        self.last = value  # refused


rs = resize_lib.session()
u = rs.array("u", 30, init=lambda i: 1.0 * i)
work = Trapezoid()
for step in rs.iterations(36):
    u.local[:] += 1
    work.add(float(u.local.sum()))
    time.sleep(0.02)
total = rs.comm.allreduce(work.integral)
if rs.rank == 0:
    x = [435 + 30.0 * (k + 1) for k in range(36)]
    print("sum", total, "expected", sum(0.5 * (a + b) for a, b in zip(x, x[1:])))
