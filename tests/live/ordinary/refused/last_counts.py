"""Counts gathered at the end of an iteration are used for offsets at the beginning of the next."""

import numpy as np
from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
u = rs.array("u", 40)
counts = None  # refused
s = 0
for k in rs.iterations(40):
    if counts is None:
        counts = comm.allgather(len(u.local))  # refused
    first = sum(counts[: comm.rank])
    u.local[:] += np.arange(first, first + len(u.local)) * k
    counts = comm.allgather(len(u.local))  # refused
w = u.gather()
if comm.rank == 0:
    print(
        "sum",
        float(w @ np.arange(40)),
        "expected",
        float(np.arange(40) @ np.arange(40) * sum(range(40))),
    )
