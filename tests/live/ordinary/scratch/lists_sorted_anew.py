"""Each rank makes its lists anew in each iteration, and sorts them in place."""

from mpi4py import MPI
import numpy as np
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
rows = [[] for _ in range(12)]
total = 0
for step in rs.iterations(40):
    for j in range(comm.rank, 12, comm.size):
        rows[j] = [(k * j + step) % 7 for k in range(4)]
        rows[j].sort()
    total += comm.allreduce(sum(rows[j][0] for j in range(comm.rank, 12, comm.size)))
if comm.rank == 0:
    print(
        "sum",
        total,
        "expected",
        sum(min((k * j + s) % 7 for k in range(4)) for s in range(40) for j in range(12)),
    )
