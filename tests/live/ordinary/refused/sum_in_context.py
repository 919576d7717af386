"""Each rank adds its part to a variable of the context."""

import contextvars

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
tally = contextvars.ContextVar("tally", default=0)  # refused
for step in rs.iterations(60):
    mine = sum(range(comm.rank, 12, comm.size))
    tally.set(tally.get() + mine)  # refused
total = comm.allreduce(tally.get())
if comm.rank == 0:
    print("sum", total, "expected", 66 * 60)
