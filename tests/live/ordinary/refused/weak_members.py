"""A set of weak references, to which the loop adds."""

import weakref
import numpy as np

import resize_lib


class Node:
    def __init__(self, k):
        self.k = k


nodes = [Node(k) for k in range(60)]
alive = weakref.WeakSet()  # refused
rs = resize_lib.session()
x = rs.array("x", 24)
total = 0
for step in rs.iterations(50):
    x.local += 1
    alive.add(nodes[step])  # refused
    value = sum(n.k for n in alive)
    total += rs.comm.bcast(value, rs.size - 1)


if rs.rank == 0:
    print("sum", total, "expected", 20825)
