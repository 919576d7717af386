"""A model that is called, as every network is."""

import time

import numpy as np

import resize_lib


class Model:
    def __init__(self):
        self.w = np.ones(4)
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        return self.w * x


rs = resize_lib.session()
model = Model()
for step in rs.iterations(50):
    mine = model(np.full(4, 1.0 + step)) * len(range(rs.rank, 6, rs.size)) / 6
    model.w -= 1e-3 * rs.comm.allreduce(mine)
    time.sleep(0.02)
if rs.rank == 0:
    w = 1.0
    for step in range(50):
        w -= 1e-3 * w * (1.0 + step)
    print("w", float(model.w.sum()) + model.calls, "expected", 4 * w + 50)
