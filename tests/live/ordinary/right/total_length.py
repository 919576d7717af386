"""The number of items of all ranks, which they agreed on before the loop."""

import numpy as np
from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
data = np.arange(30)


def part():
    return np.array_split(data, comm.size)[comm.rank]


count = comm.allreduce(len(part()))
total = 0
for step in rs.iterations(60):
    total += comm.allreduce(int(part().sum())) * count
if comm.rank == 0:
    print("sum", total, "expected", 435 * 30 * 60)
