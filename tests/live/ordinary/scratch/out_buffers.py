"""numpy buffers for out=, as large as this rank's part, made again when that changes."""

import numpy as np

import resize_lib

rs = resize_lib.session()
x = rs.array("x", 100, init=lambda i: i * 1.0)
work = None
for step in rs.iterations(50):
    a = x.local
    if work is None or work.shape != a.shape:
        work = np.empty_like(a)
    np.multiply(a, 0.5, out=work)
    np.add(work, step, out=a)
total = rs.comm.allreduce(float(x.local.sum()))
if rs.rank == 0:
    y = np.arange(100.0)
    for step in range(50):
        y = 0.5 * y + step
    print("sum", total, "expected", float(y.sum()))
