"""Sampling with a generator for each item and step; tallies reduced in the step; object in another file."""

import time
import numpy as np
import resize_lib
from _file_of_batch import Tally

rs = resize_lib.session()
t = Tally(rs.comm)
for step in rs.iterations(36):
    t.begin()
    for i in range(rs.rank, 24, rs.size):
        t.score(np.random.default_rng([3, step, i]).integers(100))
    t.end()
    time.sleep(0.02)
if rs.rank == 0:
    e = sum(
        int(np.random.default_rng([3, s, i]).integers(100)) for s in range(36) for i in range(24)
    )
    print("sum", t.total, "expected", e)
