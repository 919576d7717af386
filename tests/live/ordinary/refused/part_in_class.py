"""An object makes the rank's part when it is first needed."""

from mpi4py import MPI
import numpy as np, resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


class S:  # refused
    mine = None

    def step(self):
        if self.mine is None:
            self.mine = np.arange(24.0)[comm.rank :: comm.size]  # refused
        self.mine = self.mine * 0.5 + 1  # refused
        return comm.allreduce(float(self.mine.sum()))


s = S()
total = 0.0
for step in rs.iterations(40):
    total += s.step()
if comm.rank == 0:
    a, e = np.arange(24.0), 0.0
    for k in range(40):
        a = a * 0.5 + 1
        e += a.sum()
    print("sum", round(total, 9), "expected", round(float(e), 9))
