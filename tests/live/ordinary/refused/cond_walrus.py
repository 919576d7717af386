"""A running maximum of the part; the condition names what it compares."""

import numpy as np
from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
N = 12
v = np.random.default_rng(1).random((40, N))

rs = resize_lib.session()
level = 0.0  # refused
alarms = 0.0
for t in rs.iterations(40):
    mine = np.array_split(np.arange(N), comm.size)[comm.rank]
    x = v[t, mine].max()
    if (d := x - level) > 0:
        level = x  # refused
    alarms += comm.allreduce(level, op=MPI.MAX)
if comm.rank == 0:
    print("sum", alarms, "expected", float(np.maximum.accumulate(v.max(axis=1)).sum()))
