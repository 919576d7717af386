"""A filter is made by a function that returns (update, value); the state is a nonlocal."""

import time
import resize_lib

N = 30


def smoother(kind):
    level = None  # refused

    def plain(part):
        return float(part.sum())

    def exponential(part):
        nonlocal level
        mass = float(part.sum())
        level = mass if level is None else 0.7 * level + 0.3 * mass  # refused
        return level

    return {"plain": plain, "exp": exponential}[kind]


rs = resize_lib.session()
u = rs.array("u", N, init=lambda i: 1.0 * i)
smooth, total = smoother("exp"), 0.0
for step in rs.iterations(30):
    u.local[:] += 1 + 0.1 * step
    total += rs.comm.allreduce(smooth(u.local))
    time.sleep(0.02)
if rs.rank == 0:
    import numpy as np

    x, other, e = 1.0 * np.arange(N), smoother("exp"), 0.0
    for step in range(30):
        x += 1 + 0.1 * step
        e += other(x)
    print("sum", total, "expected", e)
