"""A rank that finds what it looks for notes that, and when: one that leaves takes it along."""

import numpy as np

import resize_lib

rs = resize_lib.session()
comm = rs.comm
found, first = False, -1  # refused
for step in rs.iterations(40):
    part = np.arange(comm.rank, 60, comm.size) * (step + 1)
    if not found and (part == 59 * 2).any():
        found, first = True, step  # refused
first = comm.allreduce(first if found else -1, op=max)
if comm.rank == 0:
    print("sum", first, "expected", 1)
