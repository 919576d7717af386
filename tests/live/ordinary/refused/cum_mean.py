"""Cumulative mean per rank = total / (t+1), averaged over ranks."""

import numpy as np
from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
N = 12
loss = np.random.default_rng(1).random((30, N))
rs = resize_lib.session()
total = 0.0  # refused
logged = []
for t in rs.iterations(30):
    mine = np.array_split(np.arange(N), comm.size)[comm.rank]
    total += loss[t, mine].mean()  # refused
    avg = np.array(total / (t + 1))
    comm.Allreduce(MPI.IN_PLACE, avg)
    logged.append(float(avg) / comm.Get_size())
if comm.rank == 0:
    m = np.cumsum(loss.mean(axis=1)) / np.arange(1, 31)
    print("sum", sum(logged), "expected", float(m.sum()))
