"""A property passes on to a dict of its owner, which is set before it is used."""

import time
import numpy as np
import resize_lib

N, STEPS = 30, 30


class Station:
    def __init__(self):
        self._values = {}

    @property
    def reading(self):
        return self._values["reading"]

    @reading.setter
    def reading(self, x):
        self._values["reading"] = x


rs = resize_lib.session()
u = rs.array("u", N, init=lambda i: 1.0 + i)
mine = Station()
total = 0.0
for step in rs.iterations(STEPS):
    u.local[:] *= 1 + 0.01 * (step)
    mine.reading = float(u.local.sum())
    out = 2 * mine.reading
    total += rs.comm.allreduce(float(out))
    time.sleep(0.02)
if rs.rank == 0:
    y, expected = 1.0 + np.arange(N), 0.0
    other = Station()
    for step in range(STEPS):
        y *= 1 + 0.01 * (step)
        other.reading = float(y.sum())
        out = 2 * other.reading
        expected += float(out)
    print("sum", total, "expected", expected)
