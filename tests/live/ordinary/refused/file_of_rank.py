"""Each rank keeps its part in a file of its own, and reads it again in the next iteration."""

import os
import tempfile

import numpy as np

import resize_lib

rs = resize_lib.session()
comm = rs.comm
folder = comm.bcast(tempfile.mkdtemp() if comm.rank == 0 else None)
name = os.path.join(folder, f"part-{comm.rank}.npy")
np.save(name, np.arange(comm.rank, 60, comm.size))
total = 0
for step in rs.iterations(40):
    part = np.load(name)  # refused
    total += comm.allreduce(int(part.sum()))
    np.save(name, part + 1)
if comm.rank == 0:
    print("sum", total, "expected", sum(1770 + 60 * t for t in range(40)))
