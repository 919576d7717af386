"""NumPy's global generator, seeded alike, draws the order from which each rank takes its part."""

import time

import numpy as np

import resize_lib

rs = resize_lib.session()
np.random.seed(3)
s = rs.value("s", 0)
for step in rs.iterations(60):
    order = np.random.permutation(100)
    s.value += rs.comm.allreduce(int(order[rs.rank :: rs.size].sum()))
    time.sleep(0.02)
if rs.rank == 0:
    print("sum", s.value, "expected", 60 * 4950)
