"""Rank 0 advances an object in a conditional expression."""

import numpy as np
from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD


class Truth:
    def __init__(self):
        self.x = 1.0

    def observe(self):
        self.x = 0.9 * self.x + 0.3
        return self.x


rs = resize_lib.session()
truth, total = Truth(), 0.0
for t in rs.iterations(30):
    obs = comm.bcast(truth.observe() if comm.rank == 0 else None, root=0)
    total += comm.allreduce(sum(obs * i for i in range(comm.rank, 9, comm.size)))
if comm.rank == 0:
    ref = Truth()
    print("sum", total, "expected", 36 * sum(ref.observe() for _ in range(30)))
