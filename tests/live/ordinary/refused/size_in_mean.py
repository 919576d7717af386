"""A mean over the ranks, by the number of before."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


size = comm.Get_size()  # refused
total = 0.0
for step in rs.iterations(40):
    total += comm.allreduce(float(step)) / size
if comm.rank == 0:
    print("sum", total, "expected", 780.0)
