"""The default argument of a method has the number of ranks."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


class Deal:
    def part(self, n, size=comm.Get_size()):  # refused
        return range(comm.rank, n, size)


deal, total = Deal(), 0
for step in rs.iterations(40):
    total += comm.allreduce(sum(step * i for i in deal.part(12)))
if comm.rank == 0:
    print("sum", total, "expected", 66 * 780)
