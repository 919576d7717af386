"""The last eight counts of items, each with its seconds; the counts are summed."""

import time
from collections import deque
from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
window, out = deque(maxlen=8), 0  # refused
last = time.perf_counter()
for t in rs.iterations(30):
    done = comm.allreduce(len(range(comm.rank, 9 + t % 3, comm.size)))
    now = time.perf_counter()
    window.append((done, now - last))  # refused
    last = now
    out += comm.allreduce(sum(n for n, _ in window)) // comm.size
if comm.rank == 0:
    d = [9 + t % 3 for t in range(30)]
    print("sum", out, "expected", sum(sum(d[max(0, t - 7) : t + 1]) for t in range(30)))
