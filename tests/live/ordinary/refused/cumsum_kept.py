"""Offsets from the counts of all ranks, computed at the end of an iteration for the next one."""

import numpy as np
import resize_lib
from mpi4py import MPI

N = 1000
with resize_lib.session() as rs:
    comm = rs.comm
    x = rs.array("x", N, init=lambda i: i * 0.001)
    offsets = np.cumsum(comm.allgather(len(x.local)))  # refused
    total = 0.0
    for step in rs.iterations(20):
        first = offsets[comm.rank] - len(x.local)
        where = first + np.arange(len(x.local))
        x.local[:] += 1e-6 * where
        offsets = np.cumsum(comm.allgather(len(x.local)))  # refused
    total = comm.allreduce(float(x.local.sum()))
    expected = sum(i * 0.001 + 20 * 1e-6 * i for i in range(N))
    if comm.rank == 0:
        print("sum", round(total, 9), "expected", round(expected, 9))
