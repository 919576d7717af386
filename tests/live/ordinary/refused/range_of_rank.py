"""The session's loop over each rank's part of the numbers."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
total = 0
for i in rs.iterations(range(comm.rank, 48, comm.size)):  # refused
    total += comm.allreduce(i)
if comm.rank == 0:
    print("sum", total, "expected", sum(range(48)))
