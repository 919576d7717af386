"""Rank 0 scatters the data before the loop."""

import resize_lib

rs = resize_lib.session()
comm = rs.comm
pieces = None
if comm.rank == 0:
    pieces = [list(range(r, 30, comm.size)) for r in range(comm.size)]
mine = comm.scatter(pieces, root=0)  # refused
total = 0
for step in rs.iterations(40):
    total += comm.allreduce(sum(step * i for i in mine))
if comm.rank == 0:
    print("sum", total, "expected", 435 * 780)
