"""The ranks are counted by the length of a list that all of them have made."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
size = len(comm.allgather(None))  # refused
total = 0
for step in rs.iterations(40):
    total += comm.allreduce(sum(i * step for i in range(comm.rank, 24, size)))
if comm.rank == 0:
    print("sum", total, "expected", 276 * 780)
