"""A table of bound methods by name."""

import time
import resize_lib

N = 30


class Reports:
    def __init__(self):
        self.was = 0.0  # refused
        self.table = {"mass": self.mass, "lag": self.lag}

    def mass(self, part):
        return float(part.sum())

    def lag(self, part):
        now = self.mass(part)
        out, self.was = now - 0.5 * self.was, now  # refused
        return out

    def __call__(self, names, part):
        return {name: self.table[name](part) for name in names}


rs = resize_lib.session()
u = rs.array("u", N, init=lambda i: 1.0 * i)
total = 0.0
reports = Reports()
for step in rs.iterations(30):
    u.local[:] += 1
    out = reports(["lag"], u.local)["lag"]
    total += rs.comm.allreduce(out)
    time.sleep(0.02)
if rs.rank == 0:
    m = [435.0 + 30 * (k + 1) for k in range(30)]
    print("sum", total, "expected", sum(a - 0.5 * b for a, b in zip(m, [0.0] + m)))
