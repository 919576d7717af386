"""A function asks for the number of ranks once, and keeps it in a global."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
_size = None  # refused


def size():
    global _size
    if _size is None:
        _size = comm.size  # refused
    return _size


total = 0
for step in rs.iterations(40):
    total += comm.allreduce(sum(i * step for i in range(comm.rank, 24, size())))
if comm.rank == 0:
    print("sum", total, "expected", 276 * 780)
