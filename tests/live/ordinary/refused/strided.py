"""Each rank goes its own way through the items, in steps of the number of ranks."""

from mpi4py import MPI
import numpy as np, resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()

k, total = comm.rank, 0  # refused
for step in rs.iterations(40):
    total += comm.allreduce(k if k < 60 else 0)
    k += comm.size  # refused
while comm.allreduce(k < 60):
    total += comm.allreduce(k if k < 60 else 0)
    k += comm.size
if comm.rank == 0:
    print("sum", total, "expected", sum(range(60)))
