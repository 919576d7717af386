"""A dict of weak references, to which the loop adds."""

import weakref
import numpy as np

import resize_lib


class Node:
    def __init__(self, k):
        self.k = k


nodes = [Node(k) for k in range(60)]
by_name = weakref.WeakValueDictionary()  # refused
rs = resize_lib.session()
x = rs.array("x", 24)
total = 0
for step in rs.iterations(50):
    x.local += 1
    by_name["latest"] = nodes[step]  # refused
    by_name[step % 9] = nodes[step]  # refused
    value = by_name["latest"].k + sum(n.k for n in by_name.values())
    total += rs.comm.bcast(value, rs.size - 1)


if rs.rank == 0:
    print("sum", total, "expected", 11795)
