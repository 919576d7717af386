"""A learning rate for the number of ranks, which becomes smaller in each iteration."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
rate = 0.1 * comm.size  # refused
w = 1.0
for step in rs.iterations(60):
    gradient = comm.allreduce(w / comm.size) / comm.size
    w -= rate * gradient
    rate *= 0.98
expected, r = 1.0, 0.1
for step in range(60):
    expected -= r * expected
    r *= 0.98
if comm.rank == 0:
    print("sum", round(w, 9), "expected", round(expected, 9))
