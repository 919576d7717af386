"""Each rank sets all of its items, in one of three branches."""

from mpi4py import MPI
import numpy as np
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
new = np.zeros(24)
total = 0.0
for step in rs.iterations(40):
    for i in range(comm.rank, 24, comm.size):
        if (i + step) % 3 == 0:
            new[i] = 1
        elif (i + step) % 3 == 1:
            new[i] = 2
        else:
            new[i] = 0
    total += comm.allreduce(float(new[comm.rank :: comm.size].sum()))
if comm.rank == 0:
    print("sum", total, "expected", 40 * 24.0)
