"""History of local means, np.mean over the last 5 of them, averaged over ranks."""

import numpy as np
from collections import deque
from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
N = 12
loss = np.random.default_rng(1).random((30, N))
rs = resize_lib.session()
window = deque(maxlen=5)  # refused
logged = 0.0
for t in rs.iterations(30):
    mine = np.array_split(np.arange(N), comm.size)[comm.rank]
    window.append(loss[t, mine].mean())  # refused
    if t >= 4:
        logged += comm.allreduce(sum(window)) / (5 * comm.size)
if comm.rank == 0:
    m = loss.mean(axis=1)
    print("sum", logged, "expected", float(sum(m[t - 4 : t + 1].mean() for t in range(4, 30))))
