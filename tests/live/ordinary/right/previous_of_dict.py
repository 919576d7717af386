"""All ranks keep the last total in a dict, under another key."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
state = {"new": 0, "old": 0}
total = 0
for step in rs.iterations(60):
    state["old"] = state["new"]
    mine = sum(i * step for i in range(comm.rank, 12, comm.size))
    state["new"] = comm.allreduce(mine)
    total += state["new"] - state["old"]
if comm.rank == 0:
    print("sum", total, "expected", 66 * 59)
