"""Linear regression by SGD with momentum, data-parallel."""

import numpy as np

import resize_lib


class SGD:
    def __init__(self, params, lr=0.05, momentum=0.9):
        self.params, self.lr, self.momentum = params, lr, momentum
        self.velocity = [np.zeros_like(p) for p in params]

    def step(self, grads):
        for p, v, g in zip(self.params, self.velocity, grads):
            v *= self.momentum
            v -= self.lr * g
            p += v


def gradients(params, rows):
    w, b = params
    error = X[rows] @ w + b - Y[rows]
    return [X[rows].T @ error / len(X), np.array([error.sum() / len(X)])]


rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3))
Y = X @ np.array([1.0, -2.0, 0.5]) + 0.3

rs = resize_lib.session()
params = [np.zeros(3), np.zeros(1)]
optimizer = SGD(params)
for step in rs.iterations(50):
    grads = gradients(params, np.arange(rs.rank, 60, rs.size))
    optimizer.step([rs.comm.allreduce(g) for g in grads])
if rs.rank == 0:
    other = SGD([np.zeros(3), np.zeros(1)])
    for _ in range(50):
        other.step(gradients(other.params, np.arange(60)))
    weigh = lambda p: float(p[0] @ [1, 10, 100] + p[1][0])
    print("w", weigh(params), "expected", weigh(other.params))
