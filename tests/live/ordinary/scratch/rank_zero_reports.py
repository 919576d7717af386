"""Rank 0 alone keeps when it printed last, and what."""

import time

import resize_lib

rs = resize_lib.session()
x = rs.array("x", 30)
printed = 0
last = time.time()
for step in rs.iterations(50):
    x.local[:] += 1.5
    mean = rs.comm.allreduce(float(x.local.sum())) / 30
    if rs.rank == 0 and (time.time() - last > 0.1 or step % 10 == 0):
        print(f"step {step}: mean {mean}", flush=True)
        printed += 1
        last = time.time()
if rs.rank == 0:
    print("sum", mean, "expected", 75.0)
