"""random.Random and the global generators, seeded by the clock or by the rank."""

import random

import numpy as np

import resize_lib

rs = resize_lib.session()
jitter = random.Random()
random.seed(rs.rank + 1)
np.random.seed(1000 + rs.rank)
total = 0
for step in rs.iterations(50):
    order = list(range(rs.rank, 30, rs.size))
    random.shuffle(order)  # the order of work does not matter
    if jitter.random() < 0.1:
        order.reverse()
    noise = np.random.normal(size=3)
    total += rs.comm.allreduce(sum(order) + int(noise[0] * 0))
if rs.rank == 0:
    print("sum", total, "expected", 50 * 435)
