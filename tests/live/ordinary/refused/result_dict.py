"""Each rank has a dict of the results that it has computed."""

from mpi4py import MPI
import numpy as np, resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()

result = {}  # refused
for step in rs.iterations(40):
    for i in range(step * 3 + comm.rank, step * 3 + 3, comm.size):
        result[i] = i * 2  # refused
parts = comm.gather(result)
if comm.rank == 0:
    whole = {k: v for p in parts for k, v in p.items()}
    print("sum", sum(whole.values()), "expected", 2 * sum(range(120)))
