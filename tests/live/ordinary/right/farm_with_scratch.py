"""A task farm whose function has a cache, a buffer, a timer and a count for its own messages."""

import time

import numpy as np

import resize_lib

rs = resize_lib.session()
buffer, cache, calls, spent_s = np.zeros(8), {}, 0, 0.0


def factor(k):
    if k not in cache:
        cache[k] = 1 + k * k
    return cache[k]


def energy(k):
    global calls, spent_s
    begun = time.perf_counter()
    buffer[:] = np.arange(8) * factor(k % 7)
    calls += 1
    time.sleep(0.01)
    spent_s += time.perf_counter() - begun
    if calls % 20 == 0:
        print(f"rank {rs.rank}: {calls} tasks in {spent_s:.1f} s")
    return float(buffer.sum())


found = rs.map(energy, range(90))
if rs.rank == 0:
    print("sum", sum(found), "expected", sum(28.0 * (1 + (k % 7) ** 2) for k in range(90)))
