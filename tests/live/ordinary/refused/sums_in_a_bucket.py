"""Per-rank sums in lists that a method hands out."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


class Acc:
    def __init__(self):
        self.parts = {}  # refused

    def bucket(self, k):
        return self.parts.setdefault(k % 4, [])  # refused

    def total(self):
        return sum(map(sum, self.parts.values()))


acc = Acc()
for step in rs.iterations(40):
    for i in range(comm.rank, 12, comm.size):
        acc.bucket(i).append(i * step)  # refused
total = comm.reduce(acc.total())  # refused
if comm.rank == 0:
    print("sum", total, "expected", sum(i * s for i in range(12) for s in range(40)))
