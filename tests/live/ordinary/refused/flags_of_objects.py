"""Each rank marks some of its objects as done."""

from mpi4py import MPI
import numpy as np
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


class Task:
    def __init__(self, i):
        self.i, self.done = i, False  # refused


tasks = [Task(i) for i in range(30)]  # refused
total = 0
for step in rs.iterations(30):
    for task in tasks[comm.rank :: comm.size]:
        if task.i * 7 % 30 == step:
            task.done = True  # refused
    total += comm.allreduce(sum(task.done for task in tasks[comm.rank :: comm.size]))
if comm.rank == 0:
    print("sum", total, "expected", sum(i * 7 % 30 <= s for s in range(30) for i in range(30)))
