"""Rank and size are asked for once, before the loop."""

from mpi4py import MPI

import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
rank, size = comm.Get_rank(), comm.Get_size()  # refused
total = 0
for step in rs.iterations(40):
    total += comm.allreduce(sum(step * i for i in range(rank, 9, size)))  # refused
if rank == 0:
    print("sum", total, "expected", 36 * 780)
