"""A function that runs with a communicator, or without one: `if comm` asks for MPI."""

from mpi4py import MPI
import resize_lib


def run(comm=None):
    total = 0
    steps = rs.iterations(30) if comm else range(30)
    for t in steps:
        rank, size = (comm.rank, comm.size) if comm else (0, 1)
        part = sum(t * i for i in range(rank, 9, size))
        total += comm.allreduce(part) if comm else part
    return total


comm = MPI.COMM_WORLD
rs = resize_lib.session()
got = run(comm)
if comm.rank == 0:
    print("sum", got, "expected", run())
