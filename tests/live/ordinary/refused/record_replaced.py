"""The last record is an object that is made, filled and then kept."""

import time
import resize_lib


class Record:
    mass = 0.0


class Diagnostics:
    def __init__(self):
        self.last = Record()  # refused

    def change(self, part):
        new = Record()
        new.mass = float(part.sum())
        change = abs(new.mass - self.last.mass)
        self.last = new  # refused
        return change


rs = resize_lib.session()
u = rs.array("u", 30, init=lambda i: 1.0 * i)
diag, total = Diagnostics(), 0.0
for step in rs.iterations(36):
    u.local[:] += 1
    total += rs.comm.allreduce(diag.change(u.local))
    time.sleep(0.02)
if rs.rank == 0:
    print("sum", total, "expected", 435 + 30.0 * 36)
