"""Each rank puts its own results into a queue, and they are added up after the loop."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


import queue

q = queue.Queue()  # refused
for step in rs.iterations(40):
    q.put(sum(step * i for i in range(comm.rank, 6, comm.size)))  # refused
mine = 0
while not q.empty():
    mine += q.get()
got = comm.allreduce(mine)
if comm.rank == 0:
    print("sum", got, "expected", 15 * 780)
