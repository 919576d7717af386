"""An exception of the program's ends the loop; a for-else that does not run."""

import resize_lib


class Converged(Exception):
    def __init__(self, value, step):
        super().__init__(value)
        self.value, self.step = value, step


class Monitor:
    def __init__(self, limit):
        self.limit, self.values = limit, []

    def __call__(self, step, value):
        self.values.append(value)
        if len(self.values) > 3 and abs(self.values[-1] - self.values[-4]) < self.limit:
            raise Converged(value, step)


rs = resize_lib.session()
monitor = Monitor(0.01)
x, outcome = 10.0, None
try:
    for step in rs.iterations(80):
        x = 0.9 * x + rs.comm.allreduce(sum(0.05 for _ in range(rs.rank, 4, rs.size)))
        monitor(step, x)
    else:
        outcome = "never"
except Converged as end:
    outcome = end
if rs.rank == 0:
    y, ys = 10.0, []
    while len(ys) < 4 or abs(ys[-1] - ys[-4]) >= 0.01:
        y = 0.9 * y + 0.2
        ys.append(y)
    print(
        "sum",
        outcome.value + 10 * outcome.step + sum(monitor.values),
        "expected",
        y + 10 * (len(ys) - 1) + sum(ys),
    )
