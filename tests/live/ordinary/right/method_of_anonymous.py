"""Methods of objects that have no other name."""

import functools
import heapq
from collections import deque
import numpy as np

import resize_lib


push = [].append
heap = []
add = functools.partial(heapq.heappush, heap)
is_new = set().__contains__
get = {k: k * k for k in range(9)}.get
pop_left = deque(range(500)).popleft
rs = resize_lib.session()
x = rs.array("x", 24)
total = 0
for step in rs.iterations(50):
    x.local += 1
    push(step)
    add((step * 7) % 11)
    value = heap[0] + len(heap) + len(push.__self__) + get(step % 9) + pop_left()
    total += rs.comm.bcast(value, rs.size - 1)


if rs.rank == 0:
    print("sum", total, "expected", 4825)
