"""A part that is made again when the number of ranks is another one."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
size, mine, total = 0, None, 0
for step in rs.iterations(40):
    if comm.size != size:
        size = comm.size
        mine = range(comm.rank, 30, size)
    total += comm.allreduce(sum(i * step for i in mine))
if comm.rank == 0:
    print("sum", total, "expected", sum(i * s for i in range(30) for s in range(40)))
