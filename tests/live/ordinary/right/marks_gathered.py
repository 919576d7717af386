"""Flags of items that all ranks get, and which each rank reads for its own."""

from mpi4py import MPI
import numpy as np
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
done, left = np.zeros(24, bool), []
for step in rs.iterations(40):
    mine = [i for i in range(comm.rank, 24, comm.size) if not done[i] and i * 7 % 24 < step]
    for part in comm.allgather(mine):
        for i in part:
            done[i] = True
    left.append(comm.allreduce(sum(not done[i] for i in range(comm.rank, 24, comm.size))))
if comm.rank == 0:
    print("sum", sum(left), "expected", sum(max(0, 24 - s) for s in range(40)))
