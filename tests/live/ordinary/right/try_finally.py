"""try, except and finally around the work and around the loop."""

import resize_lib


class Overflow(Exception):
    pass


def push(level):
    if level >= 10:
        raise Overflow(level)
    return level + 3


rs = resize_lib.session()
level, overflows, last, total, closed = 0, 0, None, 0, False
try:
    for step in rs.iterations(50):
        try:
            level = push(level)
        except Overflow as error:
            overflows += 1
            last = error
            level = 0
        finally:
            total += rs.comm.allreduce(sum(level for _ in range(rs.rank, 5, rs.size)))
        if last is not None:
            total += last.args[0]
finally:
    closed = True
if rs.rank == 0:
    at, over, seen, expected = 0, 0, 0, 0
    for _ in range(50):
        if at >= 10:
            at, over, seen = 0, over + 1, at
        else:
            at += 3
        expected += 5 * at + seen
    print("sum", total + 1000 * overflows + closed, "expected", expected + 1000 * over + 1)
