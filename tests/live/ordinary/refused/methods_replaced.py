"""Methods that the loop replaces by functions without a name."""

import resize_lib


class Solver:
    @staticmethod
    def step(k):  # refused
        return k

    @property
    def p(self):  # refused
        return 1


s = Solver()
rs = resize_lib.session()
total = 0


def neg(k):
    return -k


for step in rs.iterations(40):
    if step == 1:
        Solver.step = staticmethod(neg)  # refused
        Solver.p = property(lambda self: 3)  # refused
    v = s.step(step) + s.p
    total += rs.comm.allreduce(sum(v for _ in range(rs.rank, 6, rs.size)))
if rs.rank == 0:
    print("sum", total, "expected", sum(6 * (-k + 3 if k >= 1 else k + 1) for k in range(40)))
