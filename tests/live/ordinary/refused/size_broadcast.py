"""A plan with the number of ranks, which rank 0 has broadcast before the loop."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
plan = comm.bcast({"parts": comm.Get_size(), "n": 24} if comm.rank == 0 else None)  # refused
total = 0
for step in rs.iterations(40):
    total += comm.allreduce(sum(i * step for i in range(comm.rank, 24, plan["parts"])))
if comm.rank == 0:
    print("sum", total, "expected", 276 * 780)
