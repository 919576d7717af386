"""A norm, a maximum and a table are reduced over all ranks before the loop."""

import numpy as np
from mpi4py import MPI

import resize_lib

rs = resize_lib.session()
comm = rs.comm
mine = np.arange(comm.rank, 24, comm.size)
norm = comm.allreduce(int((mine**2).sum()))
top = comm.allreduce(int(mine.max()), op=MPI.MAX)
table = sorted(sum(comm.allgather([int(i) for i in mine]), []))
weights = np.empty(5)
if comm.rank == 0:
    weights[:] = np.arange(5) / 8
comm.Bcast(weights, root=0)
sums = np.zeros(1)
comm.Allreduce(np.array([float(mine.sum())]), sums)
total = 0.0
for step in rs.iterations(45):
    share = sum(table[i] * weights[i % 5] for i in range(comm.rank, 24, comm.size))
    total += comm.allreduce(share) + norm + top + sums[0]
if comm.rank == 0:
    step = sum(i * (i % 5) / 8 for i in range(24)) + sum(i * i for i in range(24)) + 23 + 276
    print("sum", total, "expected", 45 * step)
