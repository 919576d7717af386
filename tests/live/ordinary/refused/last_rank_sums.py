"""The last rank keeps the total of Reduce."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
total = 0  # refused
for it in rs.iterations(45):
    mine = sum(range(comm.rank, 30, comm.size)) * it
    s = comm.reduce(mine, root=comm.size - 1)
    if comm.rank == comm.size - 1:
        total += s  # refused
total = comm.bcast(total, root=comm.size - 1)
if comm.rank == 0:
    print("sum", total, "expected", sum(range(30)) * sum(range(45)))
