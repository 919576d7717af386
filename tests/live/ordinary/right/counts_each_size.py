"""Counts and displacements that are computed when their number is another one."""

from mpi4py import MPI
import numpy as np, resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()

n = 17
x = np.arange(n, dtype=float)
counts = displs = None
for step in rs.iterations(40):
    if step == 0 or len(counts) != comm.size:
        counts = [n // comm.size + (r < n % comm.size) for r in range(comm.size)]
        displs = [sum(counts[:r]) for r in range(comm.size)]
    mine = np.empty(counts[comm.rank])
    comm.Scatterv([x, counts, displs, MPI.DOUBLE], mine, root=0)
    mine = mine * 0.9 + step
    comm.Gatherv(mine, [x, counts, displs, MPI.DOUBLE], root=0)
if comm.rank == 0:
    y = np.arange(n, dtype=float)
    for s in range(40):
        y = y * 0.9 + s
    print("sum", round(float(x.sum()), 6), "expected", round(float(y.sum()), 6))
