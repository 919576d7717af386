"""A window of an object; a file of each rank's own beside it."""

import tempfile
import numpy as np
from mpi4py import MPI
import resize_lib


class Counter:
    def __init__(self, comm):
        self.memory = np.zeros(1)
        self.win = MPI.Win.Create(self.memory, comm=comm)  # refused

    def add(self, x):
        self.win.Lock(0)
        self.win.Accumulate(np.array([float(x)]), 0, op=MPI.SUM)
        self.win.Unlock(0)


comm = MPI.COMM_WORLD
rs = resize_lib.session()
counter = Counter(comm)
mine = MPI.File.Open(MPI.COMM_SELF, tempfile.mkstemp()[1], MPI.MODE_RDWR)
for it in rs.iterations(40):
    counter.add(sum(range(comm.rank, 12, comm.size)) * it)
    mine.Write(np.array([it]))
    comm.Barrier()
if comm.rank == 0:
    print("sum", counter.memory[0], "expected", 66.0 * sum(range(40)))
