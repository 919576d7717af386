"""comprehension of calls for the own ones."""

import time
import numpy as np
import resize_lib


class Member:
    def __init__(self, i):
        self.i, self.x = i, i  # refused

    def advance(self, step):
        self.x = (3 * self.x + step) % 101  # refused


rs = resize_lib.session()
members = [Member(i) for i in range(12)]
for step in rs.iterations(36):
    [m.advance(step) for m in members if m.i % rs.size == rs.rank]
    time.sleep(0.02)
total = rs.comm.allreduce(sum(m.x for m in members if m.i % rs.size == rs.rank))
if rs.rank == 0:
    x = list(range(12))
    for s in range(36):
        x = [(3 * v + s) % 101 for v in x]
    print("sum", total, "expected", sum(x))
