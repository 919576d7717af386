"""Sub-object owns the state, a property of the owner passes it on."""

import time
import numpy as np
import resize_lib

N, STEPS = 30, 30


class Sensor:
    def __init__(self):
        self.reading = 0.0  # refused


class Station:
    def __init__(self):
        self._sensor = Sensor()

    @property
    def reading(self):
        return self._sensor.reading

    @reading.setter
    def reading(self, x):
        self._sensor.reading = x  # refused


rs = resize_lib.session()
u = rs.array("u", N, init=lambda i: 1.0 + i)
mine = Station()
total = 0.0
for step in rs.iterations(STEPS):
    u.local[:] *= 1 + 0.01 * (step)
    now = float(u.local.sum())
    out = abs(now - mine.reading)
    mine.reading = now
    total += rs.comm.allreduce(float(out))
    time.sleep(0.02)
if rs.rank == 0:
    y, expected = 1.0 + np.arange(N), 0.0
    other = Station()
    for step in range(STEPS):
        y *= 1 + 0.01 * (step)
        now = float(y.sum())
        out = abs(now - other.reading)
        other.reading = now
        expected += float(out)
    print("sum", total, "expected", expected)
