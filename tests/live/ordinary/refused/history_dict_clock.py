"""A dict of steps with records of norm and seconds, of which the last three are kept."""

import time
import numpy as np
from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD


def share(x):
    return comm.allreduce(float(sum(x * i for i in range(comm.rank, 9, comm.size))))


rs = resize_lib.session()
hist, out = {}, 0.0  # refused
for t in rs.iterations(30):
    v = share(t % 7)
    if t % 2 == 0:
        hist[t] = {"v": v, "sec": time.time()}  # refused
    out += share(sum(r["v"] for r in hist.values()) + len(hist))
if comm.rank == 0:
    e, s, n = 0.0, 0.0, 0
    for t in range(30):
        if t % 2 == 0:
            s += 36 * (t % 7)
            n += 1
        e += 36 * (s + n)
    print("sum", out, "expected", float(e))
