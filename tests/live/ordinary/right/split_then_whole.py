"""Each rank advances its part of an array, and all get the whole."""

from mpi4py import MPI
import numpy as np, resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
x = np.arange(36.0)
total = 0.0
for step in rs.iterations(40):
    mine = np.array_split(x, comm.size)[comm.rank]
    mine *= 0.9
    mine += step
    x = np.concatenate(comm.allgather(mine))
    total += float(x.sum())
if comm.rank == 0:
    y, e = np.arange(36.0), 0.0
    for s in range(40):
        y = y * 0.9 + s
        e += y.sum()
    print("sum", round(float(total), 6), "expected", round(float(e), 6))
