"""The learning rate of an optimizer is scaled by the number of ranks at the start."""

import resize_lib


class SGD:
    def __init__(self, lr):
        self.lr = lr  # refused

    def step(self, w, gradient):
        return w - self.lr * gradient


rs = resize_lib.session()
optimizer = SGD(0.01 * rs.size)  # refused
w = 4.0
for step in rs.iterations(40):
    parts = rs.comm.allreduce(sum(w / 8 for _ in range(rs.rank, 8, rs.size)))
    w = optimizer.step(w, parts / rs.size)  # the mean over the ranks
if rs.rank == 0:
    print("w", w, "expected", 4.0 * 0.99**40)
