"""Objects of which each rank advances its own, and reads only these."""

from mpi4py import MPI
import numpy as np, resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


class B:
    def __init__(self, k):
        self.k, self.v = k, float(k)  # refused

    def adv(self, s):
        self.v = self.v * 0.9 + s  # refused


bs = {k: B(k) for k in range(12)}
total = 0.0
for step in rs.iterations(40):
    own = [b for k, b in bs.items() if k % comm.size == comm.rank]
    for b in own:
        b.adv(step)
    total += comm.allreduce(sum(b.v for b in own))
if comm.rank == 0:
    y, e = np.arange(12.0), 0.0
    for s in range(40):
        y = y * 0.9 + s
        e += y.sum()
    print("sum", round(total, 6), "expected", round(float(e), 6))
