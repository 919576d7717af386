"""The former value is in a file in a temporary folder of each process."""

import os
import tempfile
import time
import numpy as np
import resize_lib

rs = resize_lib.session()
u = rs.array("u", 30, init=lambda i: 1.0 * i)
path = os.path.join(tempfile.mkdtemp(), "mass.npy")
np.save(path, 0.0)
total = 0.0
for step in rs.iterations(36):
    u.local[:] += 1
    mass = float(u.local.sum())
    total += rs.comm.allreduce(abs(mass - float(np.load(path))))  # refused
    np.save(path, mass)
    time.sleep(0.02)
if rs.rank == 0:
    print("sum", total, "expected", 435 + 30.0 * 36)
