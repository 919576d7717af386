"""A rod with ghost values at both ends of each part."""

import numpy as np
from mpi4py import MPI


class Rod:
    def __init__(self, rs, n):
        self.comm, self.u = MPI.COMM_WORLD, rs.array("u", n, init=lambda i: 1.0 + 0 * i)
        self.left, self.right = np.ones(1), np.ones(1)  # refused

    def exchange(self):
        comm, a = self.comm, self.u.local
        up = comm.rank - 1 if comm.rank else MPI.PROC_NULL
        down = comm.rank + 1 if comm.rank + 1 < comm.size else MPI.PROC_NULL
        comm.Sendrecv(a[-1:].copy(), down, 1, self.left, up, 1)  # refused
        comm.Sendrecv(a[:1].copy(), up, 2, self.right, down, 2)  # refused

    def step(self):
        f = np.concatenate([self.left, self.u.local, self.right])
        self.u.local[:] = (f[:-2] + 2 * f[1:-1] + f[2:]) / 4 + self.u.indices % 5
