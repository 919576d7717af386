"""zip of the iterations and data: the data last, and another iterator beside."""

import itertools

import resize_lib


def main():
    rs = resize_lib.session()
    data = [(i * 13) % 37 for i in range(50)]
    total = 0
    for step, x, sign in zip(rs.iterations(50), data, itertools.cycle([1, 2, 3])):
        total += rs.comm.allreduce(sum(x * sign + step for _ in range(rs.rank, 5, rs.size)))
    if rs.rank == 0:
        print("sum", total, "expected", 5 * sum(data[i] * (i % 3 + 1) + i for i in range(50)))


main()
