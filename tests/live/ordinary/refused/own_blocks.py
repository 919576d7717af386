"""A program that splits an array by itself, and declares nothing."""

import numpy as np
import resize_lib

rs = resize_lib.session()
n = 60
first, last = n * rs.rank // rs.size, n * (rs.rank + 1) // rs.size
mine = np.arange(n, dtype=float)[first:last]  # refused
for step in rs.iterations(40):
    mine += step  # refused
total = rs.comm.allreduce(float(mine.sum()))
if rs.rank == 0:
    print("sum", total, "expected", float(n * (n - 1) / 2 + n * sum(range(40))))
