"""Rank 0 draws in a conditional expression, and takes the next row of a csv iterator."""

import csv
import io
import numpy as np
from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
rng = np.random.default_rng(7)
rows = iter([[str(i), str(i * i % 7)] for i in range(40)])
total = 0.0
for t in rs.iterations(30):
    w = comm.bcast(rng.random(6) if comm.rank == 0 else None)
    row = comm.bcast(next(rows) if comm.rank == 0 else None)
    total += comm.allreduce(float(w[comm.rank :: comm.size].sum())) * int(row[1])
if comm.rank == 0:
    g = np.random.default_rng(7)
    print("sum", total, "expected", float(sum(g.random(6).sum() * (i * i % 7) for i in range(30))))
