"""The last rank is found by a maximum before the loop, and adds a constant in each iteration."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


last = comm.allreduce(comm.rank, op=MPI.MAX)  # refused
total = 0
for step in rs.iterations(40):
    mine = sum(step * i for i in range(comm.rank, 12, comm.size))
    total += comm.allreduce(mine + (100 if comm.rank == last else 0))
if comm.rank == 0:
    print("sum", total, "expected", 66 * 780 + 4000)
