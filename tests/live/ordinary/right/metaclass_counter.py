"""A counter of a metaclass."""

import resize_lib


class Meta(type):
    count = 0

    def __call__(cls, *a):
        Meta.count += 1
        return super().__call__(*a)


class T(metaclass=Meta):
    def __init__(self, k):
        self.k = k


rs = resize_lib.session()
total = 0
for step in rs.iterations(40):
    t = T(step)
    v = Meta.count + t.k
    total += rs.comm.allreduce(sum(v for _ in range(rs.rank, 6, rs.size)))
if rs.rank == 0:
    print("sum", total, "expected", sum(6 * (2 * s + 1) for s in range(40)))
