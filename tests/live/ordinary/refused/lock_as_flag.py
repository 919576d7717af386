"""A lock that stays locked from one iteration on, and is asked for that."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


import threading

lock, total = threading.Lock(), 0  # refused
for step in rs.iterations(40):
    if step == 5:
        lock.acquire()
    total += comm.allreduce((2 if lock.locked() else 1) * sum(range(comm.rank, 6, comm.size)))
if comm.rank == 0:
    print("sum", total, "expected", 15 * (5 + 2 * 35))
