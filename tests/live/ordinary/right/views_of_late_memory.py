"""An object that the loop makes has parts of one array."""

import numpy as np
import resize_lib

rs = resize_lib.session()


class Ring:
    def __init__(self, n):
        self.mem = np.zeros(n)
        self.head = self.mem[: n // 2]
        self.tail = self.mem[n // 2 :]

    def step(self):
        self.head += 1
        self.tail += 2
        return float(self.mem[0] + self.mem[-1])


N = 40
total = 0.0
ring = None
for step in rs.iterations(N):
    if ring is None:
        ring = Ring(20000)
    total += rs.comm.allreduce(ring.step()) / rs.size
if rs.rank == 0:
    print(f"sum {total} expected {3.0 * N * (N + 1) / 2}")
