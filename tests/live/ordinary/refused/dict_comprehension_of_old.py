"""Dict view: items of a dict comprehension rebuilt from the old one."""

import time
import numpy as np
import resize_lib

N, STEPS = 30, 30


rs = resize_lib.session()
u = rs.array("u", N, init=lambda i: 1.0 + i)
mine = {"mass": (0.0, 0.0), "max": (0.0, 0.0)}  # refused
total = 0.0
for step in rs.iterations(STEPS):
    u.local[:] *= 1 + 0.01 * (step)
    new = {"mass": float(u.local.sum()), "max": 0.0}
    mine = {k: (new[k], was) for k, (was, _) in mine.items()}  # refused
    now, was = mine["mass"]
    out = abs(now - was)
    total += rs.comm.allreduce(float(out))
    time.sleep(0.02)
if rs.rank == 0:
    y, expected = 1.0 + np.arange(N), 0.0
    other = {"mass": (0.0, 0.0), "max": (0.0, 0.0)}
    for step in range(STEPS):
        y *= 1 + 0.01 * (step)
        new = {"mass": float(y.sum()), "max": 0.0}
        other = {k: (new[k], was) for k, (was, _) in other.items()}
        now, was = other["mass"]
        out = abs(now - was)
        expected += float(out)
    print("sum", total, "expected", expected)
