"""Each rank keeps a value for each iteration, and the mean of all is used."""

from mpi4py import MPI
import numpy as np
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
x = rs.array("x", 24, init=lambda i: i * 1.0)
vals = []  # refused
for step in rs.iterations(40):
    vals.append(float(x.local.sum()))  # refused
    x.local[:] = x.local * 0.9 + 1
total = comm.allreduce(sum(vals) / len(vals))
if comm.rank == 0:
    y, h = np.arange(24.0), []
    for s in range(40):
        h.append(float(y.sum()))
        y = y * 0.9 + 1
    print("sum", round(total, 7), "expected", round(float(sum(h) / 40), 7))
