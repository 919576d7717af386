"""As chunk, in an object that a function makes."""

import resize_lib


class Part:
    def __init__(self, rank, size, n):
        self.start = n * rank // size  # refused
        self.stop = n * (rank + 1) // size  # refused


def make_part(rs):
    return Part(rs.comm.Get_rank(), rs.comm.Get_size(), 60)


def main():
    rs = resize_lib.session()
    part = make_part(rs)  # refused
    total = 0
    for step in rs.iterations(40):
        total += rs.comm.allreduce(sum(step + i for i in range(part.start, part.stop)))
    if rs.rank == 0:
        print("sum", total, "expected", sum(60 * k + 1770 for k in range(40)))


main()
