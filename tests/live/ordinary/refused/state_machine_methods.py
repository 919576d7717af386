"""State machine: a method returns the next one."""

import time
import numpy as np
import resize_lib

N, STEPS = 30, 30


class Machine:
    def __init__(self):
        self.state, self.m, self.out = self.first, 0.0, 0.0

    def first(self, part):
        self.m = self.out = float(part.sum())  # refused
        return self.later

    def later(self, part):
        now = float(part.sum())
        self.out, self.m = abs(now - self.m), now  # refused
        return self.later

    def step(self, part):
        self.state = self.state(part)
        return self.out


rs = resize_lib.session()
u = rs.array("u", N, init=lambda i: 1.0 + i)
mine = Machine()
total = 0.0
for step in rs.iterations(STEPS):
    u.local[:] *= 1 + 0.01 * (step)
    out = mine.step(u.local)
    total += rs.comm.allreduce(float(out))
    time.sleep(0.02)
if rs.rank == 0:
    y, expected = 1.0 + np.arange(N), 0.0
    other = Machine()
    for step in range(STEPS):
        y *= 1 + 0.01 * (step)
        out = other.step(y)
        expected += float(out)
    print("sum", total, "expected", expected)
