"""Each rank keeps the iteration in which it first had an item."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
first = {}  # refused
total = 0
for step in rs.iterations(60):
    mine = 0
    for i in range(12):
        if i % comm.size == comm.rank:
            if i not in first:
                first[i] = step  # refused
            mine += step - first[i]
    total += comm.allreduce(mine)
if comm.rank == 0:
    print("sum", total, "expected", 12 * sum(range(60)))
