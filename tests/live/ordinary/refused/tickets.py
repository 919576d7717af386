"""A semaphore whose count is used up."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


import threading

tickets, total = threading.Semaphore(10), 0  # refused
for step in rs.iterations(40):
    got = tickets.acquire(blocking=False) if step % 2 else False
    total += comm.allreduce((3 if got else 1) * sum(range(comm.rank, 6, comm.size)))
if comm.rank == 0:
    print("sum", total, "expected", 15 * (40 + 2 * 10))
