"""Rows of a work array, cut to the part's length in the methods of an object."""

import numpy as np
import resize_lib


class Solver:
    def __init__(self, rs):
        self.rs = rs
        self.u = rs.array("u", 24, init=lambda i: i * 1.0)
        self.work = np.zeros((3, 48))

    def half(self, a, n):
        t = self.work[0, :n]
        np.multiply(a, 0.5, out=t)
        return t

    def step(self):
        a = self.u.local
        n = a.size
        self.work[1, :n] = self.half(a, n)
        self.work[2, :n] = self.work[1, :n] + 1
        a[:] = self.work[1, :n] + self.work[2, :n]


rs = resize_lib.session()
s = Solver(rs)
for step in rs.iterations(40):
    s.step()
got = rs.comm.allreduce(float((s.u.local * s.u.indices).sum()))
if rs.rank == 0:
    print("sum", got, "expected", float((np.arange(24) + 40.0) @ np.arange(24)))
