"""Class derived from deque with a method."""

import time
import numpy as np
from collections import deque
import resize_lib

N, STEPS = 30, 30


class History(deque):
    def change(self):
        return abs(self[0] - self[1])

    def note(self, part):
        self.appendleft(float(part.sum()))
        while len(self) > 3:
            self.pop()


rs = resize_lib.session()
u = rs.array("u", N, init=lambda i: 1.0 + i)
mine = History([0.0])  # refused
total = 0.0
for step in rs.iterations(STEPS):
    u.local[:] *= 1 + 0.01 * (step)
    mine.note(u.local)  # refused
    out = mine.change()
    total += rs.comm.allreduce(float(out))
    time.sleep(0.02)
if rs.rank == 0:
    y, expected = 1.0 + np.arange(N), 0.0
    other = History([0.0])
    for step in range(STEPS):
        y *= 1 + 0.01 * (step)
        other.note(y)
        out = other.change()
        expected += float(out)
    print("sum", total, "expected", expected)
