"""A schedule that lowers its rate where the rank's own best value stays."""

import numpy as np
from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
N = 12
v = np.random.default_rng(1).random((40, N))


class Plateau:
    def __init__(self, patience=3, threshold=1e-4):
        self.best, self.num_bad, self.patience, self.threshold = (  # refused
            0.0,
            0,
            patience,
            threshold,
        )
        self.lr = 1.0

    def is_better(self, a, best):
        return a > best

    def step(self, metrics):
        current = float(metrics)
        if self.is_better(current, self.best):
            self.best = current  # refused
            self.num_bad = 0
        else:
            self.num_bad += 1
        if self.num_bad > self.patience:
            self.lr *= 0.5
            self.num_bad = 0


rs = resize_lib.session()
sch = Plateau()
alarms = 0.0
for t in rs.iterations(40):
    mine = np.array_split(np.arange(N), comm.size)[comm.rank]
    x = v[t, mine].max()
    sch.step(x)
    level = sch.best
    alarms += comm.allreduce(level, op=MPI.MAX)
if comm.rank == 0:
    print("sum", alarms, "expected", float(np.maximum.accumulate(v.max(axis=1)).sum()))
