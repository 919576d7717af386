"""Each rank counts its items whose value is not that of the last iteration."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
last = {}  # refused
changed = 0
for step in rs.iterations(60):
    mine = 0
    for i in range(12):
        if i % comm.size == comm.rank:
            value = (step + i) // 5
            if last.get(i) != value:
                mine += 1
            last[i] = value  # refused
    changed += comm.allreduce(mine)
expected, seen = 0, {}
for step in range(60):
    for i in range(12):
        expected += seen.get(i) != (step + i) // 5
        seen[i] = (step + i) // 5
if comm.rank == 0:
    print("sum", changed, "expected", expected)
