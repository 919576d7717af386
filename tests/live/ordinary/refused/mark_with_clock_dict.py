"""A dict with the step, alike on all ranks, and the clock, which is not."""

import time

import numpy as np
from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD


def stamp(t):
    return {"step": t, "when": time.time()}


rs = resize_lib.session()
mark, out = stamp(0), 0  # refused
for t in rs.iterations(30):
    if t % 5 == 0:
        mark = stamp(t)  # refused
    age = t - int(mark["step"])
    out += comm.allreduce(sum(age * i + 1 for i in range(comm.rank, 9, comm.size)))
if comm.rank == 0:
    print("sum", out, "expected", 36 * 60 + 9 * 30)
