"""Each rank reverses its lists in place."""

from mpi4py import MPI
import numpy as np
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
rows = [list(range(5)) for _ in range(12)]  # refused
total = 0
for step in rs.iterations(30):
    for row in rows[comm.rank :: comm.size]:
        row.reverse()  # refused
    total += comm.allreduce(sum(row[0] for row in rows[comm.rank :: comm.size]))
if comm.rank == 0:
    print("sum", total, "expected", 12 * 4 * 15)
