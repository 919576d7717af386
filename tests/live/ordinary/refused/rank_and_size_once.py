"""The rank and the number of ranks are asked for in the first iteration."""

from mpi4py import MPI
import numpy as np, resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()

rank = size = None  # refused
total = 0
for step in rs.iterations(40):
    if rank is None:
        rank, size = comm.Get_rank(), comm.Get_size()  # refused
    total += comm.allreduce(sum(range(rank, 24, size)) * step)
if comm.rank == 0:
    print("sum", total, "expected", 276 * sum(range(40)))
