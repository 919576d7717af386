"""The ranks are counted by allreduce(1) before the loop, and a mean is taken by that."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


n_ranks = comm.allreduce(1)  # refused
total = 0.0
for step in rs.iterations(40):
    total += comm.allreduce(float(step)) / n_ranks
if comm.rank == 0:
    print("sum", total, "expected", 780.0)
