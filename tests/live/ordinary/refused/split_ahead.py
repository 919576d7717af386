"""Each iteration splits the next one's data by the ranks that there are."""

from mpi4py import MPI
import numpy as np
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
x, parts, total = np.arange(24), None, 0  # refused
for step in rs.iterations(40):
    if parts is None:
        parts = np.array_split(x, comm.size)  # refused
    mine = parts[comm.rank]
    total += comm.allreduce(int(mine.sum()))
    x = x + 1
    parts = np.array_split(x, comm.size)
if comm.rank == 0:
    print("sum", total, "expected", sum(276 + 24 * s for s in range(40)))
