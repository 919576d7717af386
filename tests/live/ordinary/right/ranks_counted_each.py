"""The ranks are counted by allreduce(1) in each iteration"""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


total = 0.0
for step in rs.iterations(40):
    n_ranks = comm.allreduce(1)
    total += comm.allreduce(float(step)) / n_ranks
if comm.rank == 0:
    print("w", total, "expected", 780.0)
