"""A function with the loop, called several times from a plain loop around it."""

import resize_lib

calls = 0


def relax(rs, x, rate):
    global calls
    calls += 1
    best = x
    for turn in rs.iterations(10):
        x = x * rate + rs.comm.allreduce(sum(0.1 for _ in range(rs.rank, 5, rs.size)))
        best = max(best, x)
    return x, best


rs = resize_lib.session()
x, rate, bests = 4.0, 0.9, []
for phase in range(5):
    x, best = relax(rs, x, rate)
    bests.append(best)
    rate *= 0.95
if rs.rank == 0:
    y, r, tops = 4.0, 0.9, []
    for phase in range(5):
        top = y
        for turn in range(10):
            y = y * r + 0.5
            top = max(top, y)
        tops.append(top)
        r *= 0.95
    print("sum", x + sum(bests) + calls, "expected", y + sum(tops) + 5)
