"""A decorator is given the number of ranks."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


def strided(size):
    def wrap(f):
        return lambda n: f(n, size)  # refused

    return wrap


@strided(comm.size)
def part(n, size):
    return range(comm.rank, n, size)


total = 0
for step in rs.iterations(40):
    total += comm.allreduce(sum(step * i for i in part(24)))
if comm.rank == 0:
    print("sum", total, "expected", 276 * 780)
