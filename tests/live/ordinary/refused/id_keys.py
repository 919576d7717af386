"""Counts by `id()`, which is another number in each process."""

import resize_lib


class Node:
    def __init__(self, n):
        self.n = n


nodes = [Node(k) for k in range(5)]
visits = {}  # refused
rs = resize_lib.session()
total = 0
for step in rs.iterations(40):
    node = nodes[step * 3 % 5]
    visits[id(node)] = visits.get(id(node), 0) + 1  # refused
    total += rs.comm.allreduce(sum(visits[id(node)] for _ in range(rs.rank, 6, rs.size)))
if rs.rank == 0:
    v, e = {}, 0
    for s in range(40):
        k = s * 3 % 5
        v[k] = v.get(k, 0) + 1
        e += 6 * v[k]
    print("sum", total, "expected", e)
