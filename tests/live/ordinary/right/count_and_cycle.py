"""itertools: count, cycle, islice, chain, repeat, advanced in the loop."""

import itertools
import time

import resize_lib

rs = resize_lib.session()
ids = itertools.count(100, 5)
phases = itertools.cycle([1, 10, 100])
part = itertools.islice(range(1000), 20, 400, 4)
joined = itertools.chain(range(20), [500] * 10, range(50, 90))
total = 0
for step in rs.iterations(50):
    value = next(ids) * next(phases) + next(part) + next(joined)
    total += rs.comm.allreduce(sum(value for _ in range(rs.rank, 4, rs.size)))
    time.sleep(0.02)
if rs.rank == 0:
    chain = [*range(20), *[500] * 10, *range(50, 90)]
    values = [(100 + 5 * s) * (1, 10, 100)[s % 3] + 20 + 4 * s + chain[s] for s in range(50)]
    print("sum", total, "expected", 4 * sum(values))
