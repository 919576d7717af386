"""Adam as people write it: moments in dictionaries that the first step fills, t counted up."""

import time

import numpy as np

import resize_lib


class Adam:
    def __init__(self, lr=0.1, b1=0.9, b2=0.99):
        self.lr, self.b1, self.b2 = lr, b1, b2
        self.m = {}
        self.v = {}
        self.t = 0

    def update(self, params, grads):
        self.t += 1
        for name, g in grads.items():
            self.m[name] = self.b1 * self.m.get(name, 0) + (1 - self.b1) * g
            self.v[name] = self.b2 * self.v.get(name, 0) + (1 - self.b2) * g * g
            mean = self.m[name] / (1 - self.b1**self.t)
            square = self.v[name] / (1 - self.b2**self.t)
            params[name] = params[name] - self.lr * mean / (np.sqrt(square) + 1e-8)


def train(iterations, share):
    params = {"a": np.array([3.0, -1.0]), "b": np.array([[2.0, 0.5]])}
    adam = Adam()
    for step in iterations:
        adam.update(params, {k: share(p * (1 + step % 3)) for k, p in params.items()})
        time.sleep(0.005)
    return sum(float(p.sum()) for p in params.values()) + adam.t


rs = resize_lib.session()
w = train(rs.iterations(50), lambda g: rs.comm.allreduce(g * len(range(rs.rank, 8, rs.size)) / 8))
if rs.rank == 0:
    print("w", w, "expected", train(range(50), lambda g: g))
