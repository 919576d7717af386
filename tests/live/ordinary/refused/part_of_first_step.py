"""The rank's part is made in the first iteration."""

from mpi4py import MPI
import numpy as np, resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()

data = np.arange(24.0)  # refused
mine, total = None, 0.0  # refused
for step in rs.iterations(40):
    if mine is None:
        mine = data[comm.rank :: comm.size].copy()  # refused
    mine += 1  # refused
    total += comm.allreduce(float(mine.sum()))
if comm.rank == 0:
    print("sum", total, "expected", float(sum(276 + 24 * (s + 1) for s in range(40))))
