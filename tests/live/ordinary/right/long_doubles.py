"""Numbers of ten bytes, which take sixteen."""

import numpy as np
import resize_lib

rs = resize_lib.session()
N = 40
acc = np.zeros(4, np.longdouble)
total = 0.0
for step in rs.iterations(N):
    acc = acc + 1
    acc[1] = float(acc[0])
    total += rs.comm.allreduce(float(acc[0])) / rs.size
if rs.rank == 0:
    print(f"sum {total} expected {N * (N + 1) / 2}")
