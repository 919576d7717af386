"""Each rank leads its items from one state to the next."""

from mpi4py import MPI
import numpy as np
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
state = ["new"] * 12  # refused
total = 0
for step in rs.iterations(30):
    for i in range(comm.rank, 12, comm.size):
        if state[i] == "new":
            state[i] = "ready"  # refused
        elif state[i] == "ready":
            state[i] = "done"  # refused
    total += comm.allreduce(sum(state[i] == "done" for i in range(comm.rank, 12, comm.size)))
if comm.rank == 0:
    print("sum", total, "expected", 12 * 29)
