"""A machine whose state is one of its own methods."""

import resize_lib


class Lift:
    def __init__(self):
        self.floor, self.calls, self.log = 0, [], []
        self.state = self.idle

    def idle(self, call):
        if call:
            self.calls.append(call % 9)
            self.state = self.moving

    def moving(self, call):
        self.floor += (self.calls[0] > self.floor) - (self.calls[0] < self.floor)
        if self.floor == self.calls[0]:
            self.log.append(self.calls.pop(0))
            self.state = self.idle if not self.calls else self.moving
        if call % 4 == 1:
            self.calls.append(call % 9)
            self.state = self.moving


def run(loop, add):
    lift = Lift()
    for k in loop:
        lift.state(add(k))
    return sum(i * f for i, f in enumerate(lift.log, 1)) + lift.floor + sum(lift.calls)


rs = resize_lib.session()
got = run(
    rs.iterations(70), lambda k: rs.comm.allreduce(sum(k + i for i in range(rs.rank, 3, rs.size)))
)
if rs.rank == 0:
    print("sum", got, "expected", run(range(70), lambda k: 3 * k + 3))
