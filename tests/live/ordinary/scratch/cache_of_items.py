"""Each rank keeps what it has computed for an item, once."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
known = {}
total = 0
for step in rs.iterations(60):
    mine = 0
    for i in range(12):
        if i % comm.size == comm.rank:
            if known.get(i) is None:
                known[i] = i * i
            mine += known[i] * step
    total += comm.allreduce(mine)
if comm.rank == 0:
    print("sum", total, "expected", 506 * sum(range(60)))
