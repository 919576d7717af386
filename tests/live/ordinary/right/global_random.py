"""The functions of the module random, seeded alike on every rank."""

import random

import resize_lib


def walk(position):
    return position + random.gauss(0, 1) + random.choice((-1, 1))


def main():
    rs = resize_lib.session()
    random.seed(5)
    position, total = 0.0, 0.0
    for step in rs.iterations(50):
        position = walk(position)
        total += rs.comm.allreduce(sum(position * i for i in range(rs.rank, 4, rs.size)))
    if rs.rank == 0:
        random.seed(5)
        position, expected = 0.0, 0.0
        for _ in range(50):
            position = walk(position)
            expected += 6 * position
        print("sum", total, "expected", expected)


main()
