"""A smoothed time per item of this rank, with which it chooses how to compute."""

import time

import resize_lib

rs = resize_lib.session()
per_item = None
switched = 0
total = 0
for step in rs.iterations(50):
    items = range(rs.rank, 200, rs.size)
    begin = time.perf_counter()
    if per_item is not None and per_item > 1e-6:  # two ways to the same
        mine = sum(step + i for i in items)
        switched += 1
    else:
        mine = len(items) * step + sum(items)
    took = (time.perf_counter() - begin) / len(items)
    per_item = took if per_item is None else 0.9 * per_item + 0.1 * took
    total += rs.comm.allreduce(mine)
if rs.rank == 0:
    print("sum", total, "expected", sum(200 * k + 19900 for k in range(50)))
