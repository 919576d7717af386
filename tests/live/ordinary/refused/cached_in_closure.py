import functools

import resize_lib


def interning():
    known = []

    @functools.cache  # refused
    def number(name):
        known.append(name)
        return len(known)

    return number


number = interning()
rs = resize_lib.session()
x = rs.array("x", 24)
total = 0
for step in rs.iterations(50):
    x.local += 1
    value = number("abcdefg"[step * step % 7]) * 10 + number(step // 10)
    total += rs.comm.bcast(value, rs.size - 1)

if rs.rank == 0:
    print("sum", total, "expected", 2080)
