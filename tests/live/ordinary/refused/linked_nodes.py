"""Linked nodes: each record points to the one before, older ones are cut off."""

import time
import resize_lib

N = 30


class Node:
    __slots__ = ("mass", "prev")

    def __init__(self, mass, prev=None):
        self.mass, self.prev = mass, prev


rs = resize_lib.session()
u = rs.array("u", N, init=lambda i: 1.0 * i)
total = 0.0
head = Node(0.0)  # refused
for step in rs.iterations(30):
    u.local[:] += 1
    head = Node(float(u.local.sum()), head)  # refused
    head.prev.prev = None
    out = abs(head.mass - head.prev.mass)
    total += rs.comm.allreduce(out)
    time.sleep(0.02)
if rs.rank == 0:
    m = [435.0 + 30 * (k + 1) for k in range(30)]
    print("sum", total, "expected", 435 + 30.0 * 30)
