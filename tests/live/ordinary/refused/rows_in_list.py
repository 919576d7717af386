"""Each rank advances its rows through a list that each iteration makes anew."""

from mpi4py import MPI
import numpy as np
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
x = np.ones((24, 1))  # refused
for step in rs.iterations(40):
    rows = list(x)
    for j in range(comm.rank, 24, comm.size):
        rows[j] *= 0.9
        rows[j] += j
total = comm.allreduce(float(x[comm.rank :: comm.size].sum()))
if comm.rank == 0:
    y = np.ones(24)
    for s in range(40):
        y = y * 0.9 + np.arange(24)
    print("sum", round(total, 7), "expected", round(float(y.sum()), 7))
