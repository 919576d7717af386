"""Blocks point to objects, one for each rank, which are made in every fifth iteration."""

import time
import numpy as np
import resize_lib

BLOCKS, STEPS = 24, 30


def work(b, step):
    return (b + 1) * (1 + step % 3)


class Worker:
    def __init__(self, rank):
        self.rank, self.load = rank, 0

    def take(self, b):
        self.load += b
        return self


class Pool:
    def __init__(self):
        self.of = {}  # refused

    def assign(self, size):
        workers = [Worker(r) for r in range(size)]
        for b in reversed(range(BLOCKS)):
            self.of[b] = min(workers, key=lambda w: (w.load, w.rank)).take(b)  # refused


rs = resize_lib.session()
comm = rs.comm
pool = Pool()
total = 0
for step in rs.iterations(STEPS):
    if step % 5 == 0:
        pool.assign(comm.size)
    mine = [b for b, w in pool.of.items() if w.rank == comm.rank]
    total += comm.allreduce(sum(work(b, step) for b in mine))
    time.sleep(0.02)
if comm.rank == 0:
    print("sum", total, "expected", sum(work(b, s) for b in range(BLOCKS) for s in range(STEPS)))
