"""A queue whose tasks are marked as done; its number of unfinished tasks is used."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


import queue

q, total = queue.Queue(), 0
for step in rs.iterations(40):
    q.put(step)
    if step % 4 == 3:
        q.get()
        q.task_done()
    total += comm.allreduce(q.unfinished_tasks * sum(range(comm.rank, 6, comm.size)))
if comm.rank == 0:
    n, e = 0, 0
    for s in range(40):
        n += 1 - (s % 4 == 3)
        e += 15 * n
    print("sum", total, "expected", e)
