"""Each rank has a list of tasks, and takes one of them in each iteration."""

from mpi4py import MPI
import numpy as np, resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()

tasks, total = None, 0  # refused
for step in rs.iterations(40):
    if tasks is None:
        tasks = list(range(comm.rank, 90, comm.size))  # refused
    t = tasks.pop() if tasks else 0  # refused
    total += comm.allreduce(t)
rest = comm.allreduce(sum(tasks))
if comm.rank == 0:
    print("sum", total + rest, "expected", sum(range(90)))
