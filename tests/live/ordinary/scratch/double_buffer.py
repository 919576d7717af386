"""Two work arrays of this rank's that change places, and a pool of spare ones."""

import numpy as np

import resize_lib

rs = resize_lib.session()
front, back = np.empty(0), np.empty(0)
spare = []
x = rs.array("x", 90, init=lambda i: i % 9 * 1.0)
for step in rs.iterations(50):
    if len(front) != len(x.local):
        spare.append(front)
        front, back = np.empty_like(x.local), np.empty_like(x.local)
    np.multiply(x.local, 0.9, out=front)
    np.add(front, step % 4, out=back)
    x.local[:] = back
    front, back = back, front
total = rs.comm.allreduce(float(x.local.sum()))
if rs.rank == 0:
    y = np.arange(90) % 9 * 1.0
    for step in range(50):
        y = y * 0.9 + step % 4
    print("sum", total, "expected", float(y.sum()))
