"""The former value goes through a function that returns (now, change).; from 2 ranks."""

import time
import resize_lib


def advance(part, before):
    part += 1
    now = float(part.sum())
    return now, abs(now - before)


rs = resize_lib.session()
u = rs.array("u", 30, init=lambda i: 1.0 * i)
before, total = 0.0, 0.0  # refused
for step in rs.iterations(36):
    before, change = advance(u.local, before)  # refused
    total += rs.comm.allreduce(change)
    time.sleep(0.02)
if rs.rank == 0:
    print("sum", total, "expected", 435 + 30.0 * 36)
