"""A workspace of another file keeps scratch arrays, made anew when the shape changes."""

import time
import numpy as np
import resize_lib
from _file_of_scratch import Workspace

rs = resize_lib.session()
u = rs.array("u", 30, init=lambda i: 1.0 * i)
work, total = Workspace(), 0.0
for step in rs.iterations(36):
    tmp = work.get("tmp", u.local.shape)
    np.multiply(u.local, 0.9, out=tmp)
    np.add(tmp, step, out=u.local)
    total += rs.comm.allreduce(float(tmp.sum()))
    time.sleep(0.02)
if rs.rank == 0:
    x, e = np.arange(30.0), 0.0
    for s in range(36):
        e += (0.9 * x).sum()
        x = 0.9 * x + s
    print("sum", round(total, 6), "expected", round(float(e), 6))
