"""A text has a line with the rank's number for every fourth step, and its lines are counted."""

import time
import numpy as np
from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD


def share(x):
    return comm.allreduce(float(sum(x * i for i in range(comm.rank, 9, comm.size))))


rs = resize_lib.session()
text, out = "", 0.0  # refused
for t in rs.iterations(30):
    if t % 4 == 0:
        text += f"rank {comm.rank}: step {t}\n"  # refused
    out += share(text.count("\n"))
if comm.rank == 0:
    print("sum", out, "expected", 36.0 * sum(t // 4 + 1 for t in range(30)))
