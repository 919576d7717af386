"""The items of a farm come from a comprehension."""

import time
import resize_lib

rs = resize_lib.session()


def f(c):
    time.sleep(0.01)
    return c * c % 17


found = rs.map(f, [c for c in range(60)])
if rs.rank == 0:
    print("sum", sum(found), "expected", sum(c * c % 17 for c in range(60)))
