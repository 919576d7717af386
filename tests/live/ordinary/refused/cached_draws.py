import functools
import random

import resize_lib

random.seed(7)


def drawn():
    return random.randrange(1000)


@functools.cache  # refused
def label_of(name):
    return drawn()


rs = resize_lib.session()
x = rs.array("x", 24)
total = 0
for step in rs.iterations(50):
    x.local += 1
    value = label_of(step % 5) + label_of(step // 10)
    total += rs.comm.bcast(value, rs.size - 1)

if rs.rank == 0:
    random.seed(7)
    labels, expected = {}, 0
    for step in range(50):
        for name in (step % 5, step // 10):
            if name not in labels:
                labels[name] = drawn()
            expected += labels[name]
    print("sum", total, "expected", expected)
