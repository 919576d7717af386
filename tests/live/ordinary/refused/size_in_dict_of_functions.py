"""A function in a dict remembers the number of ranks."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


def make(size):
    return {"part": lambda n: range(comm.rank, n, size)}


tools = make(comm.size)  # refused

total = 0
for step in rs.iterations(40):
    total += comm.allreduce(sum(step * i for i in tools["part"](24)))
if comm.rank == 0:
    print("sum", total, "expected", 276 * 780)
