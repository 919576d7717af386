"""An array that each iteration binds anew, and one that grows."""

import numpy as np

import resize_lib

rs = resize_lib.session()
x = np.linspace(0.0, 1.0, 16)
trace = np.empty(0)
for step in rs.iterations(45):
    x = np.cos(x) * 0.7 + 0.01 * step
    mine = x[rs.rank :: rs.size].sum()
    trace = np.append(trace, rs.comm.allreduce(mine))
if rs.rank == 0:
    y, expected = np.linspace(0.0, 1.0, 16), 0.0
    for step in range(45):
        y = np.cos(y) * 0.7 + 0.01 * step
        expected += y.sum() * (step + 1)
    print("sum", float(trace @ np.arange(1, 46)), "expected", float(expected))
