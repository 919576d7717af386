"""A task farm counts the tasks of each rank, and the counts are added up after it."""

import time
from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
evaluations = 0  # refused


def energy(c):
    global evaluations
    evaluations += 1  # refused
    time.sleep(0.01)
    return c * c % 17


found = rs.map(energy, range(60))
total = comm.allreduce(evaluations)
if comm.rank == 0:
    print("sum", sum(found) + 1000 * total, "expected", sum(c * c % 17 for c in range(60)) + 60000)
