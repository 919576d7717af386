"""Each rank advances its rows of an array in a function that gets a row."""

from mpi4py import MPI
import numpy as np
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


def adv(row, j):  # refused
    row *= 0.9  # refused
    row += j


x = np.ones((24, 1))  # refused
for step in rs.iterations(40):
    for j in range(comm.rank, 24, comm.size):
        adv(x[j], j)  # refused
total = comm.allreduce(float(x[comm.rank :: comm.size].sum()))
if comm.rank == 0:
    y = np.ones(24)
    for s in range(40):
        y = y * 0.9 + np.arange(24)
    print("sum", round(total, 7), "expected", round(float(y.sum()), 7))
