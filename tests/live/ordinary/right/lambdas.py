"""Lambdas that look at names the loop binds anew, and one that is replaced."""

import resize_lib


def main():
    rs = resize_lib.session()
    scale = 1.0
    shape = lambda x: x * scale
    offset = [0.0]
    shift = lambda x: x + offset[0]
    total = 0.0
    for step in rs.iterations(50):
        scale = scale * 0.95 + 0.1
        offset[0] += 0.5
        mine = sum(shift(shape(i)) for i in range(rs.rank, 6, rs.size))
        total += rs.comm.allreduce(mine)
    if rs.rank == 0:
        s, expected = 1.0, 0.0
        for step in range(50):
            s = s * 0.95 + 0.1
            expected += 15 * s + 6 * 0.5 * (step + 1)
        print("sum", total, "expected", expected)


main()
