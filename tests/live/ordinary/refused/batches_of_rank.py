"""The session's loop over batches of each rank's part of the data."""

import numpy as np
from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
data = np.arange(240.0)
mine = data[comm.rank :: comm.size]
total = 0.0
for b in rs.iterations(np.array_split(mine, 40)):  # refused
    total += comm.allreduce(float(b.sum()))
if comm.rank == 0:
    print("sum", total, "expected", float(data.sum()))
