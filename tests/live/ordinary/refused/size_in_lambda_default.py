"""A lambda keeps rank and size in its defaults, as in a loop over lambdas."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


places = [lambda i, r=comm.rank, s=comm.size: i % s == r for _ in range(2)]  # refused
total = 0
for step in rs.iterations(40):
    total += comm.allreduce(sum(step * i for i in range(12) if places[step % 2](i)))
if comm.rank == 0:
    print("sum", total, "expected", 66 * 780)
