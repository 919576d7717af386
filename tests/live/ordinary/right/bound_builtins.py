"""Methods of lists, generators and sets, kept without their objects."""

import random
from collections import deque

import resize_lib

take = list(range(1000)).pop
draw = random.Random(42).random
window = deque(range(7))
rotate = window.rotate
seen = set()
note = seen.add
rs = resize_lib.session()
x = rs.array("x", 24)
total = 0
for step in rs.iterations(60):
    x.local += 1
    rotate()
    note(window[0] * step)
    mine = take() + window[0] + int(1000 * draw())
    total += rs.comm.bcast(mine, rs.size - 1)
if rs.rank == 0:
    twin, expected, turned = random.Random(42), 0, deque(range(7))
    for step in range(60):
        turned.rotate()
        expected += 999 - step + turned[0] + int(1000 * twin.random())
    print("sum", total, "expected", expected)
