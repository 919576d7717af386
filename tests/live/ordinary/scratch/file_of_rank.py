"""A file of each rank's own, opened by MPI on MPI.COMM_SELF."""

import os
import tempfile
import numpy as np
from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
path = tempfile.mkstemp()[1]
mine = MPI.File.Open(MPI.COMM_SELF, path, MPI.MODE_RDWR)
total = 0
for it in rs.iterations(40):
    mine.Write(np.array([it]))
    total += comm.allreduce(sum(range(comm.rank, 12, comm.size)) * it)
mine.Close()
os.remove(path)
if comm.rank == 0:
    print("sum", total, "expected", 66 * sum(range(40)))
