"""A rank takes its own entry of what all have gathered, and keeps it for the next iteration."""

import time
import numpy as np
import resize_lib

N, STEPS = 30, 30

rs = resize_lib.session()
comm = rs.comm

old, total = 0.0, 0.0  # refused
for step in rs.iterations(STEPS):
    now = float(comm.allgather(len(range(comm.rank, N, comm.size)))[comm.rank] * (step + 1))
    total += comm.allreduce(abs(now - old))
    old = now  # refused
    time.sleep(0.02)
if rs.rank == 0:
    print("sum", total, "expected", 30.0 * 30)
