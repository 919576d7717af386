"""Lists of blocks, one for each rank, are filled in every fifth iteration."""

import time
import numpy as np
import resize_lib

BLOCKS, STEPS = 24, 30


def work(b, step):
    return (b + 1) * (1 + step % 3)


rs = resize_lib.session()
comm = rs.comm
groups = []  # refused
total = 0
for step in rs.iterations(STEPS):
    if step % 5 == 0:
        groups = [[] for _ in range(comm.size)]  # refused
        for b in range(BLOCKS):
            groups[b % comm.size].append(b)
    mine = groups[comm.rank] if comm.rank < len(groups) else []
    total += comm.allreduce(sum(work(b, step) for b in mine))
    time.sleep(0.02)
if comm.rank == 0:
    print("sum", total, "expected", sum(work(b, s) for b in range(BLOCKS) for s in range(STEPS)))
