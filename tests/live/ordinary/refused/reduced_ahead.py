"""The sum of one iteration is waited for in the next one (Iallreduce)."""

from mpi4py import MPI
import numpy as np
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
mine, whole, request, total = np.zeros(1), np.zeros(1), None, 0.0  # refused
for step in rs.iterations(40):
    if request is not None:
        request.Wait()
        total += whole[0]
    mine[0] = sum(step * i for i in range(comm.rank, 6, comm.size))
    request = comm.Iallreduce(mine, whole)
request.Wait()
total += whole[0]
if comm.rank == 0:
    print("sum", total, "expected", 15.0 * 780)
