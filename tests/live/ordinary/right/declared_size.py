"""The size of the problem follows from the number of ranks at the start, and is declared."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
n = rs.value("n", comm.bcast(8 * comm.size if comm.rank == 0 else None))
total = 0
for step in rs.iterations(40):
    total += comm.allreduce(sum(step * i for i in range(comm.rank, n.value, comm.size)))
if comm.rank == 0:
    print("sum", total, "expected", n.value * (n.value - 1) // 2 * 780)
