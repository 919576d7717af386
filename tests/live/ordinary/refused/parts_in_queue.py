"""Each rank puts its part into a queue, which is read after the loop."""

from queue import SimpleQueue

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
parts = SimpleQueue()  # refused
for step in rs.iterations(60):
    parts.put(sum(range(comm.rank, 12, comm.size)))  # refused
mine = sum(parts.get() for _ in range(parts.qsize()))
total = comm.allreduce(mine)
if comm.rank == 0:
    print("sum", total, "expected", 66 * 60)
