"""A weak reference that the loop binds to other objects."""

import weakref
import numpy as np

import resize_lib


class Node:
    def __init__(self, k):
        self.k = k


nodes = [Node(k) for k in range(7)]
current = weakref.ref(nodes[0])  # refused
rs = resize_lib.session()
x = rs.array("x", 24)
total = 0
for step in rs.iterations(50):
    x.local += 1
    if step % 3 == 0:
        current = weakref.ref(nodes[(current().k + 3) % 7])  # refused
    value = current().k  # refused
    total += rs.comm.bcast(value, rs.size - 1)


if rs.rank == 0:
    print("sum", total, "expected", 157)
