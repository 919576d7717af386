"""Scatterv and Gatherv with counts computed each iteration, numpy buffer on root."""

import numpy as np
from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
N = 31
full = np.arange(N, dtype=np.float64)
rs = resize_lib.session()
for it in rs.iterations(30):
    size, rank = comm.Get_size(), comm.Get_rank()
    counts = np.full(size, N // size)
    counts[: N % size] += 1
    displs = np.insert(np.cumsum(counts), 0, 0)[:-1]
    recv = np.empty(counts[rank])
    comm.Scatterv([full, counts, displs, MPI.DOUBLE], recv, root=0)
    recv *= 0.9
    recv += 1
    comm.Gatherv(recv, [full, counts, displs, MPI.DOUBLE], root=0)
if comm.rank == 0:
    e = np.arange(N, dtype=float)
    for _ in range(30):
        e = e * 0.9 + 1
    print("sum", float(full @ np.arange(N)), "expected", float(e @ np.arange(N)))
