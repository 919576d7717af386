"""Slots object in a list, the list is sorted by a key (a best list)."""

import time
import resize_lib

N = 30


class Entry:
    __slots__ = ("mass", "step")

    def __init__(self, mass, step):
        self.mass, self.step = mass, step


rs = resize_lib.session()
u = rs.array("u", N, init=lambda i: 1.0 * i)
total = 0.0
entries = [Entry(0.0, -1)]  # refused
for step in rs.iterations(30):
    u.local[:] += 1
    entries.insert(0, Entry(float(u.local.sum()), step))  # refused
    entries.sort(key=lambda e: -e.step)
    out = abs(entries[0].mass - entries[1].mass)
    entries.pop()
    total += rs.comm.allreduce(out)
    time.sleep(0.02)
if rs.rank == 0:
    print("sum", total, "expected", 435 + 30.0 * 30)
