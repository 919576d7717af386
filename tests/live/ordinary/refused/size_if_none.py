"""The number of ranks is taken where none is known yet."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


class World:
    n = 0

    def size(self):
        self.n = self.n or comm.size  # refused
        return self.n


world = World()
total = 0
for step in rs.iterations(40):
    total += comm.allreduce(sum(i * step for i in range(comm.rank, 24, world.size())))
if comm.rank == 0:
    print("sum", total, "expected", 276 * 780)
