"""Functions of `random`, imported by name; the seed is the same on all ranks."""

from random import random, seed, shuffle

import resize_lib

seed(11)
rs = resize_lib.session()
x = rs.array("x", 24)
deck, total = list(range(52)), 0
for step in rs.iterations(60):
    x.local += 1
    shuffle(deck)
    total += rs.comm.bcast(deck[0] + int(1000 * random()), rs.size - 1)
if rs.rank == 0:
    seed(11)
    deck, expected = list(range(52)), 0
    for step in range(60):
        shuffle(deck)
        expected += deck[0] + int(1000 * random())
    print("sum", total, "expected", expected)
