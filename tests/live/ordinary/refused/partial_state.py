"""Functools.partial binds the state of a leaky integrator to a step function."""

import time
from functools import partial
import numpy as np
import resize_lib

N = 30


def leaky(state, rate, part):
    now = float(part.sum())
    out = now - rate * state["was"]
    state["was"] = now
    return out


rs = resize_lib.session()
u = rs.array("u", N, init=lambda i: 1.0 * i)
step_ = partial(leaky, {"was": 0.0}, 0.5)  # refused
total = 0.0
for step in rs.iterations(30):
    u.local[:] *= 1.01
    total += rs.comm.allreduce(step_(u.local))
    time.sleep(0.02)
if rs.rank == 0:
    x, other, e = 1.0 * np.arange(N), partial(leaky, {"was": 0.0}, 0.5), 0.0
    for step in range(30):
        x *= 1.01
        e += other(x)
    print("sum", total, "expected", e)
