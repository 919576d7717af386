"""A log file of each rank's own, written in every iteration."""

import os
import tempfile

import resize_lib

rs = resize_lib.session()
folder = tempfile.mkdtemp()
log = open(os.path.join(folder, f"rank{rs.rank}.log"), "w")
lines = 0
x = rs.array("x", 64, init=lambda i: i % 5)
for step in rs.iterations(50):
    x.local[:] = (x.local * 3 + 1) % 11
    print(f"step {step}: {x.local.sum()} on rank {rs.rank} of {rs.size}", file=log, flush=True)
    lines += 1
log.close()
total = rs.comm.allreduce(float(x.local.sum()))
if rs.rank == 0:
    values = [i % 5 for i in range(64)]
    for _ in range(50):
        values = [(v * 3 + 1) % 11 for v in values]
    print("sum", total, "expected", sum(values))
