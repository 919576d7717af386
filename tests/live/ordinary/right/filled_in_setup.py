"""Arrays are filled before the loop by their indices, without init."""

import numpy as np
import resize_lib

N = 24
rs = resize_lib.session()
x = rs.array("x", N)
x.local[:] = np.sin(x.indices)
pairs = rs.array("pairs", (N, 2))
pairs.local[:] = x.indices[:, None]
assert (x.shape, pairs.shape) == ((N,), (N, 2))
a = rs.matrix("a", 12, 12, block=2)
a.local[:] = a.rows[:, None] + a.cols[None, :]
for step in rs.iterations(30):
    x.local[:] = 0.5 * x.local + pairs.local[:, 0]
    pairs.local[:, 1] += 1
    a.local += 1
w = x.allgather()
t = rs.comm.allreduce(float(a.local.sum()))
if rs.rank == 0:
    y = np.sin(np.arange(N))
    for _ in range(30):
        y = 0.5 * y + np.arange(N)
    print("sum", float(w @ np.arange(N)) + t, "expected", float(y @ np.arange(N)) + 144 * 41)
