"""Long linked structures: a chain of 3,000 nodes, and a graph with cycles."""

import resize_lib


class Node:
    def __init__(self, value, next=None):
        self.value, self.next = value, next
        self.friends = []


def made():
    head = None
    for i in range(3000):
        head = Node(i % 10, head)
    return head


def advance(head, step):
    new = Node(step, head)
    new.friends.append(head)
    head.friends.append(new)
    total, node = 0, new
    for _ in range(100):
        node.value = (node.value * 3 + step) % 97
        total += node.value + sum(f.value for f in node.friends)
        node = node.next
    return new, total


rs = resize_lib.session()
head = made()
total = 0
for step in rs.iterations(40):
    head, value = advance(head, step)
    total += rs.comm.allreduce(sum(value for _ in range(rs.rank, 3, rs.size)))
if rs.rank == 0:
    other, expected = made(), 0
    for step in range(40):
        other, value = advance(other, step)
        expected += 3 * value
    print("sum", total, "expected", expected)
