"""Generator coroutine with send, absolute change."""

import time
import numpy as np
import resize_lib

N, STEPS = 30, 30


def changes():
    was, out = 0.0, None
    while True:
        now = yield out
        out, was = abs(now - was), now


rs = resize_lib.session()
u = rs.array("u", N, init=lambda i: 1.0 + i)
mine = changes()  # refused
next(mine)
total = 0.0
for step in rs.iterations(STEPS):
    u.local[:] *= 1 + 0.01 * (step)
    out = mine.send(float(u.local.sum()))  # refused
    total += rs.comm.allreduce(float(out))
    time.sleep(0.02)
if rs.rank == 0:
    y, expected = 1.0 + np.arange(N), 0.0
    other = changes()
    next(other)
    for step in range(STEPS):
        y *= 1 + 0.01 * (step)
        out = other.send(float(y.sum()))
        expected += float(out)
    print("sum", total, "expected", expected)
