"""A copy of the job's communicator that each iteration makes."""

from mpi4py import MPI

import resize_lib

rs = resize_lib.session()
x = rs.array("x", 24)
total = 0
for step in rs.iterations(60):
    comm = MPI.Intracomm(MPI.COMM_WORLD)  # of this iteration
    x.local += 1
    total += int(comm.allreduce(int(x.local.sum())))
if rs.rank == 0:
    print("sum", total, "expected", 24 * 60 * 61 // 2)
