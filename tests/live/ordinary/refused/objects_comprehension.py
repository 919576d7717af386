"""Each rank advances its objects, in a comprehension that selects them."""

from mpi4py import MPI
import numpy as np, resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


class O:
    def __init__(self, v):
        self.v = v  # refused

    def update(self, s):
        self.v = self.v * 0.9 + s  # refused
        return self.v


objs = [O(float(i)) for i in range(36)]  # refused
total = 0.0
for step in rs.iterations(40):
    total += comm.allreduce(
        float(sum(o.update(step) for i, o in enumerate(objs) if i % comm.size == comm.rank))
    )
if comm.rank == 0:
    y, e = np.arange(36.0), 0.0
    for s in range(40):
        y = y * 0.9 + s
        e += y.sum()
    print("sum", round(float(total), 6), "expected", round(float(e), 6))
