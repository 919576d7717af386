"""Default arguments with a clock, a process id and a constant"""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


import os
import time


def elapsed(start=time.time(), pid=os.getpid(), scale=1000):
    return (time.time() - start) * scale + pid * 0


total = 0
for step in rs.iterations(40):
    if elapsed() > 1e9:
        print("late")
    total += comm.allreduce(sum(step * i for i in range(comm.rank, 12, comm.size)))
if comm.rank == 0:
    print("sum", total, "expected", 66 * 780)
