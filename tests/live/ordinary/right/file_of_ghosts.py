"""Ghosts in an array of another file's object: set to the boundary value, then received, then used."""

import time
import numpy as np
import resize_lib
from _file_of_ghosts import Field

rs = resize_lib.session()
f = Field(rs, 30)
for step in rs.iterations(36):
    f.fill()
    f.diffuse()
    time.sleep(0.02)
total = rs.comm.allreduce(float((f.u.local * f.u.indices).sum()))
if rs.rank == 0:
    x = np.sin(np.arange(30) * 0.7) + 2
    for _ in range(36):
        g = np.concatenate([[0.0], x, [0.0]])
        x = (g[:-2] + 2 * g[1:-1] + g[2:]) / 4
    print("sum", total, "expected", float(x @ np.arange(30)))
