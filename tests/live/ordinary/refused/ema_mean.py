"""Running loss per rank, averaged over the ranks each step."""

import numpy as np
from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
N = 12
loss = np.random.default_rng(1).random((30, N))
rs = resize_lib.session()
running = 0.0  # refused
logged = []
for t in rs.iterations(30):
    mine = np.array_split(np.arange(N), comm.size)[comm.rank]
    running = 0.9 * running + 0.1 * loss[t, mine].mean()  # refused
    logged.append(comm.allreduce(running) / comm.size)
if comm.rank == 0:
    e, r = 0.0, 0.0
    for t in range(30):
        r = 0.9 * r + 0.1 * loss[t].mean()
        e += r
    print("sum", sum(logged), "expected", float(e))
