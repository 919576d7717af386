"""Two declared arrays change their names in each iteration, as time levels do."""

import time

import resize_lib

N = 64
rs = resize_lib.session()
old = rs.array("old", N, init=lambda i: i * 1.0)
new = rs.array("new", N)
for step in rs.iterations(51):
    new.local[:] = old.local * 0.5 + old.indices
    old, new = new, old
    time.sleep(0.02)
total = rs.comm.allreduce(float(old.local.sum()))
if rs.rank == 0:
    u = [float(i) for i in range(N)]
    for _ in range(51):
        u = [0.5 * x + i for i, x in enumerate(u)]
    print("sum", total, "expected", sum(u))
