"""The group of the communicator is kept, and the work is dealt out by it."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


group = comm.Get_group()  # refused
total = 0
for step in rs.iterations(40):
    total += comm.allreduce(sum(step * i for i in range(group.Get_rank(), 12, group.Get_size())))
if comm.rank == 0:
    print("sum", total, "expected", 66 * 780)
