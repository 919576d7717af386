"""The parts of the last two iterations, in the rows of one array."""

import numpy as np
import resize_lib

rs = resize_lib.session()
u = rs.array("u", 24, init=lambda i: i * 1.0)
buf = np.zeros((2, 48))  # refused
total = 0.0
for step in rs.iterations(40):
    n = len(u.local)
    total += rs.comm.allreduce(float(buf[(step + 1) % 2, :n].sum()))
    buf[step % 2, :n] = u.local  # refused
if rs.rank == 0:
    print("sum", total, "expected", 276.0 * 39)
