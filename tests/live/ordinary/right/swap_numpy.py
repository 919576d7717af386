"""Two plain numpy arrays, the same on all ranks, swapped in each iteration."""

import numpy as np

import resize_lib

rs = resize_lib.session()
u = np.arange(10.0)
v = np.zeros(10)
total = 0.0
for step in rs.iterations(50):
    v[:] = 0.5 * np.roll(u, 1) + 0.1 * step
    u, v = v, u
    total += rs.comm.allreduce(float(u[rs.rank :: rs.size].sum()))
if rs.rank == 0:
    x, expected = np.arange(10.0), 0.0
    for step in range(50):
        x = 0.5 * np.roll(x, 1) + 0.1 * step
        expected += x.sum()
    print("sum", total, "expected", float(expected))
