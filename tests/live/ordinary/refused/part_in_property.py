"""A property keeps the rank's part."""

from mpi4py import MPI
import numpy as np, resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()

import functools


class D:
    def __init__(self, n):
        self.n = n

    @functools.cached_property  # refused
    def mine(self):  # refused
        return list(range(comm.rank, self.n, comm.size))


d = D(24)
total = 0
for step in rs.iterations(40):
    total += comm.allreduce(sum(d.mine) * step)
if comm.rank == 0:
    print("sum", total, "expected", 276 * sum(range(40)))
