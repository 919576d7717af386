"""The stride of the next iteration is noted at the end of this one."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


class Next:
    first = stride = None


total = 0
for step in rs.iterations(40):
    first, stride = Next.first, Next.stride
    if stride is None:
        first, stride = comm.rank, comm.size
    total += comm.allreduce(sum(step * i for i in range(first, 12, stride)))
    Next.first, Next.stride = comm.rank, comm.size  # refused
if comm.rank == 0:
    print("sum", total, "expected", 66 * 780)
