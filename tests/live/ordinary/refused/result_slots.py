"""Each rank sets the results that it has computed; they are added up after the loop."""

from mpi4py import MPI
import numpy as np, resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()

result = np.zeros(120)  # refused
for step in rs.iterations(40):
    for i in range(step * 3 + comm.rank, step * 3 + 3, comm.size):
        result[i] = i * 2.0  # refused
whole = comm.allreduce(result)
if comm.rank == 0:
    print("sum", float(whole.sum()), "expected", float(2 * sum(range(120))))
