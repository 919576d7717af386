"""A cache of what was computed for the items that this rank has had."""

import resize_lib

cache = {}
hits = misses = 0


def weight(i):
    global hits, misses
    if i in cache:
        hits += 1
    else:
        misses += 1
        cache[i] = sum(k * i % 7 for k in range(100))
    return cache[i]


rs = resize_lib.session()
total = 0
for step in rs.iterations(50):
    mine = range((rs.rank + step) % rs.size, 40, rs.size)
    total += rs.comm.allreduce(sum(step * weight(i) for i in mine))
if rs.rank == 0:
    print(f"{hits} hits, {misses} misses on rank 0")
    every = sum(sum(k * i % 7 for k in range(100)) for i in range(40))
    print("sum", total, "expected", 1225 * every)
