"""Defaults have the size, and every call gives the size of now"""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


def mine(n, rank=comm.rank, size=comm.size):
    return range(rank, n, size)


total = 0
for step in rs.iterations(40):
    total += comm.allreduce(sum(step * i for i in mine(12, comm.rank, comm.size)))
if comm.rank == 0:
    print("sum", total, "expected", 66 * 780)
