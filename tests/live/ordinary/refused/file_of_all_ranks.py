"""A file opened by all ranks before the loop; each writes its part."""

import os
import tempfile
import numpy as np
from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
path = comm.bcast(tempfile.mkstemp()[1] if comm.rank == 0 else None)
N = 12
f = MPI.File.Open(comm, path, MPI.MODE_CREATE | MPI.MODE_RDWR)  # refused
for it in rs.iterations(40):
    lo, hi = N * comm.rank // comm.size, N * (comm.rank + 1) // comm.size
    f.Write_at_all((it * N + lo) * 8, np.arange(lo, hi) * it)
f.Close()
if comm.rank == 0:
    got = int(np.fromfile(path, dtype=int).sum())
    os.remove(path)
    print("sum", got, "expected", 66 * sum(range(40)))
