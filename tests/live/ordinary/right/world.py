"""MPI.COMM_WORLD as in the plain program; only the loop is the session's."""

from mpi4py import MPI

import resize_lib

rs = resize_lib.session()
total = 0
for step in rs.iterations(50):
    rank, size = MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()
    total += MPI.COMM_WORLD.allreduce(sum(step + i for i in range(rank, 9, size)))
if MPI.COMM_WORLD.Get_rank() == 0:
    print("sum", total, "expected", sum(9 * step + 36 for step in range(50)))
