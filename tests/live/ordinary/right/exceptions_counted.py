"""Exceptions of the program's own, raised and counted; try, except, else and finally."""

import resize_lib


class Overflow(Exception):
    def __init__(self, level):
        super().__init__(f"level {level}")
        self.level = level


class Tank:
    def __init__(self):
        self.level, self.spilt, self.quiet, self.visits = 0, [], 0, 0

    def pour(self, litres):
        self.level += litres
        if self.level > 40:
            over, self.level = self.level - 40, 20
            raise Overflow(over)


def run(loop, add):
    tank = Tank()
    for k in loop:
        try:
            tank.pour(add(k) % 9)
        except Overflow as e:
            tank.spilt.append(e.level)
        else:
            tank.quiet += 1
        finally:
            tank.visits += 1
    return tank.level + 10 * sum(tank.spilt) + 100 * tank.quiet + tank.visits


rs = resize_lib.session()
got = run(
    rs.iterations(60), lambda k: rs.comm.allreduce(sum(k + i for i in range(rs.rank, 5, rs.size)))
)
if rs.rank == 0:
    print("sum", got, "expected", run(range(60), lambda k: 5 * k + 10))
