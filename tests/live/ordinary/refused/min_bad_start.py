"""Local minimum filter; allreduce MIN with a joiner that starts at 0."""

import numpy as np
from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
N = 12
dt = 1 + np.random.default_rng(1).random((30, N))
rs = resize_lib.session()
t_now, lowest = 0.0, 0.0  # refused
for t in rs.iterations(30):
    mine = np.array_split(np.arange(N), comm.size)[comm.rank]
    local = dt[t, mine].min()
    lowest = local if t == 0 else min(lowest * 1.05, local)  # refused
    t_now += comm.allreduce(lowest, op=MPI.MIN)
if comm.rank == 0:
    e, l = 0.0, 0.0
    for t in range(30):
        x = dt[t].min()
        l = x if t == 0 else min(l * 1.05, x)
        e += l
    print("sum", t_now, "expected", float(e))
