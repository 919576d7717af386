"""One-sided: a window made before the loop."""

import numpy as np
from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
buf = np.zeros(1)
win = MPI.Win.Create(buf, comm=comm)  # refused
total = 0.0
for it in rs.iterations(40):
    win.Fence()
    if comm.rank == 0:
        buf[0] = 0.0
    win.Fence()
    mine = np.array([float(sum(range(comm.rank, 12, comm.size)) * it)])
    win.Accumulate(mine, 0, op=MPI.SUM)
    win.Fence()
    got = np.zeros(1)
    win.Get(got, 0)
    win.Fence()
    total += got[0]
if comm.rank == 0:
    print("sum", total, "expected", 66.0 * sum(range(40)))
