"""The last three values of each item, in rows of which each rank has its own."""

from mpi4py import MPI
import numpy as np
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
ring = np.zeros((12, 3))  # refused
total = 0.0
for step in rs.iterations(30):
    for row in ring[comm.rank :: comm.size]:
        row[step % 3] = step  # refused
    total += comm.allreduce(float(ring[comm.rank :: comm.size].sum()))
if comm.rank == 0:
    print("sum", total, "expected", 12.0 * sum(sum(range(max(0, s - 2), s + 1)) for s in range(30)))
