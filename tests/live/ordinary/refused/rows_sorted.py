"""Each rank sorts its rows of an array in place, after a change of one item."""

from mpi4py import MPI
import numpy as np
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
x = np.array([[(i * 7 + k * 3) % 11 for k in range(4)] for i in range(12)])  # refused
total = 0
for step in rs.iterations(30):
    for j in range(comm.rank, 12, comm.size):
        x[j, step % 4] = (step * j) % 13  # refused
        x[j].sort()  # refused
    total += comm.allreduce(int(x[comm.rank :: comm.size, 0].sum()))
if comm.rank == 0:
    y, e = np.array([[(i * 7 + k * 3) % 11 for k in range(4)] for i in range(12)]), 0
    for s in range(30):
        y[:, s % 4] = (s * np.arange(12)) % 13
        y.sort(axis=1)
        e += int(y[:, 0].sum())
    print("sum", total, "expected", e)
