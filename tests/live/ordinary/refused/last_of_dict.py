"""Each rank keeps its last value in a dict, under another key."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
state = {"new": 0, "old": 0}  # refused
total = 0
for step in rs.iterations(60):
    state["old"] = state["new"]  # refused
    state["new"] = sum(i * step for i in range(comm.rank, 12, comm.size))  # refused
    total += comm.allreduce(state["new"] - state["old"])
if comm.rank == 0:
    print("sum", total, "expected", 66 * 59)
