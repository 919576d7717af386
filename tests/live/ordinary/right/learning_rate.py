"""A scheduler object that lowers the learning rate of an optimizer it refers to."""

import resize_lib


class Optimizer:
    def __init__(self, lr):
        self.groups = [{"lr": lr}]


class StepLR:
    def __init__(self, optimizer, every, factor):
        self.optimizer, self.every, self.factor = optimizer, every, factor
        self.epoch = 0

    def step(self):
        self.epoch += 1
        if self.epoch % self.every == 0:
            self.optimizer.groups[0]["lr"] *= self.factor


rs = resize_lib.session()
optimizer = Optimizer(0.4)
scheduler = StepLR(optimizer, 7, 0.5)
w = 5.0
for step in rs.iterations(50):
    gradient = rs.comm.allreduce(sum(w / 10 for _ in range(rs.rank, 10, rs.size)))
    w -= optimizer.groups[0]["lr"] * gradient * 0.1
    scheduler.step()
if rs.rank == 0:
    x = 5.0
    for step in range(50):
        x -= 0.4 * 0.5 ** (step // 7) * x * 0.1
    print("w", w + scheduler.epoch, "expected", x + 50)
