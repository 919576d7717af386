"""A lazy table per level: multigrid transfer weights of the own part, in a dict by level."""

import time
import numpy as np
import resize_lib

rs = resize_lib.session()
u = rs.array("u", 24, init=lambda i: 1.0 * i)
weights = {}  # refused


def weight(level):
    return weights.setdefault(level, float((u.indices % (level + 2)).sum()))  # refused


total = 0.0
for step in rs.iterations(36):
    total += rs.comm.allreduce(weight(step % 3))
    time.sleep(0.02)
if rs.rank == 0:
    print(
        "sum", total, "expected", float(sum((np.arange(24) % (s % 3 + 2)).sum() for s in range(36)))
    )
