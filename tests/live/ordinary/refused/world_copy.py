"""A copy of the job's communicator, which does not follow the job."""

from mpi4py import MPI

import resize_lib

comm = MPI.Intracomm(MPI.COMM_WORLD)  # refused
rs = resize_lib.session()
x = rs.array("x", 24)
total = 0
for step in rs.iterations(60):
    x.local += 1
    total += int(comm.allreduce(int(x.local.sum())))
if rs.rank == 0:
    print("sum", total, "expected", 24 * 60 * 61 // 2)
