"""Each rank advances the items that a mask selects; a new array keeps the others."""

from mpi4py import MPI
import numpy as np, resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
x = np.arange(36.0)  # refused
total = 0.0
for step in rs.iterations(40):
    mine = np.arange(36) % comm.size == comm.rank
    x = np.where(mine, x * 0.9 + step, x)  # refused
    total += comm.allreduce(float(x[mine].sum()))
if comm.rank == 0:
    y, e = np.arange(36.0), 0.0
    for s in range(40):
        y = y * 0.9 + s
        e += y.sum()
    print("sum", round(float(total), 6), "expected", round(float(e), 6))
