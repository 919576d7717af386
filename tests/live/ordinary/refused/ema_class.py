"""Smoothed meter class; averaged over ranks."""

import numpy as np
from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
N = 12
loss = np.random.default_rng(1).random((30, N))


class Smoothed:
    def __init__(self, beta=0.9):
        self.beta, self.value = beta, None  # refused

    def update(self, x):
        self.value = (  # refused
            x if self.value is None else self.beta * self.value + (1 - self.beta) * x
        )
        return self.value

    def synced(self):
        return comm.allreduce(self.value) / comm.Get_size()


rs = resize_lib.session()
meter, logged = Smoothed(), []
for t in rs.iterations(30):
    mine = np.array_split(np.arange(N), comm.size)[comm.rank]
    meter.update(loss[t, mine].mean())
    logged.append(meter.synced())
if comm.rank == 0:
    e, r = 0.0, loss[0].mean()
    for t in range(30):
        r = 0.9 * r + 0.1 * loss[t].mean() if t else r
        e += r
    print("sum", sum(logged), "expected", float(e))
