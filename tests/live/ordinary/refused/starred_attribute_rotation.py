"""Chained assignment through a tuple of attributes, starred targets."""

import time
import resize_lib

N = 30


class Levels:
    def __init__(self):
        self.a = self.b = self.c = 0.0  # refused

    def rotate(self, new):
        self.a, self.b, self.c = new, *(self.a, self.b)  # refused


rs = resize_lib.session()
u = rs.array("u", N, init=lambda i: 1.0 * i)
total = 0.0
lv = Levels()
for step in rs.iterations(30):
    u.local[:] += 1
    lv.rotate(float(u.local.sum()))
    out = abs(lv.a - lv.b)
    total += rs.comm.allreduce(out)
    time.sleep(0.02)
if rs.rank == 0:
    print("sum", total, "expected", 435 + 30.0 * 30)
