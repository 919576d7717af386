"""A binary tree that grows in the loop, walked recursively."""

import resize_lib


class Node:
    def __init__(self, key):
        self.key, self.left, self.right, self.visits = key, None, None, 0

    def insert(self, key):
        self.visits += 1
        side = "left" if key < self.key else "right"
        child = getattr(self, side)
        if child is None:
            setattr(self, side, Node(key))
        else:
            child.insert(key)

    def weight(self, depth=1):
        below = sum(n.weight(depth + 1) for n in (self.left, self.right) if n)
        return depth * self.key + self.visits + below


rs = resize_lib.session()
root = Node(50)
total = 0
for step in rs.iterations(50):
    root.insert(step * 37 % 101)
    total += rs.comm.allreduce(sum(root.weight() for _ in range(rs.rank, 4, rs.size)))
if rs.rank == 0:
    other, expected = Node(50), 0
    for step in range(50):
        other.insert(step * 37 % 101)
        expected += 4 * other.weight()
    print("sum", total, "expected", expected)
