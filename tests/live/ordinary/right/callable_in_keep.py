"""A model that is called, kept by name: `rs.keep` takes an object with `__call__`."""

import time

import numpy as np

import resize_lib


class Model:
    def __init__(self):
        self.w = np.ones(4)

    def __call__(self, x):
        return self.w * x


rs = resize_lib.session()
model = Model()
rs.keep(model=model)
for step in rs.iterations(60):
    mine = model(np.full(4, 1.0 + step)) / rs.size
    model.w -= 1e-4 * rs.comm.allreduce(mine)
    time.sleep(0.02)
if rs.rank == 0:
    w = 1.0
    for step in range(60):
        w -= 1e-4 * w * (1.0 + step)
    print("w", float(model.w[0]), "expected", w)
