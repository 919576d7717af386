"""Monte Carlo: each batch has its own stream, by its number; a moving error estimate ends the loop."""

from collections import deque

import numpy as np
import resize_lib


def batch(number):
    rng = np.random.default_rng([7, number])
    x, y = rng.random((2, 200))
    return int((x * x + y * y < 1).sum())


def run(loop, add, mine):
    hits, drawn, recent = 0, 0, deque(maxlen=5)
    for step in loop:
        hits += add(sum(batch(12 * step + k) for k in mine(12)))
        drawn += 12 * 200
        recent.append(4 * hits / drawn)
        if len(recent) == 5 and max(recent) - min(recent) < 1e-3:
            break
    return round(recent[-1] * 1e6) + step


rs = resize_lib.session()
got = run(rs.iterations(200), rs.comm.allreduce, lambda n: range(rs.rank, n, rs.size))
if rs.rank == 0:
    print("sum", got, "expected", run(range(200), lambda v: v, range))
