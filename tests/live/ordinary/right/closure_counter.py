"""Closures with nonlocal counters, two of them over the same cell."""

import resize_lib


def make_clock(start):
    now = start
    ticks = []

    def tick(by):
        nonlocal now
        now += by
        ticks.append(now)
        return now

    def read():
        return now + len(ticks)

    return tick, read


def main():
    rs = resize_lib.session()
    tick, read = make_clock(100)
    total = 0
    for step in rs.iterations(50):
        tick(step % 3)
        total += rs.comm.allreduce(sum(read() for _ in range(rs.rank, 5, rs.size)))
    if rs.rank == 0:
        now, expected = 100, 0
        for step in range(50):
            now += step % 3
            expected += 5 * (now + step + 1)
        print("sum", total, "expected", expected)


main()
