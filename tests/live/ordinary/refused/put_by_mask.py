"""Each rank advances its items of an array with putmask."""

from mpi4py import MPI
import numpy as np
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
x = np.ones(24)  # refused
for step in rs.iterations(40):
    own = np.arange(24) % comm.size == comm.rank
    np.putmask(x, own, x * 0.9 + np.arange(24))  # refused
total = comm.allreduce(float(x[comm.rank :: comm.size].sum()))
if comm.rank == 0:
    y = np.ones(24)
    for s in range(40):
        y = y * 0.9 + np.arange(24)
    print("sum", round(total, 7), "expected", round(float(y.sum()), 7))
