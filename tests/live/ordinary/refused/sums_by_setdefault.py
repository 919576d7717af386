"""Per-rank sums in lists that setdefault makes."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
parts = {}  # refused
for step in rs.iterations(40):
    for i in range(comm.rank, 12, comm.size):
        parts.setdefault(i % 3, []).append(i * step)  # refused
total = comm.reduce(sum(map(sum, parts.values())))
if comm.rank == 0:
    print("sum", total, "expected", sum(i * s for i in range(12) for s in range(40)))
