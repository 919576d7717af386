"""Each rank adds up its part in an iteration, and sets the sum to zero at the end of it."""

import resize_lib

rs = resize_lib.session()
comm = rs.comm
part, total = 0, 0.0
for step in rs.iterations(40):
    for i in range(comm.rank, 60, comm.size):
        part += float(i * step)
    total += comm.allreduce(part)
    part = 0.0
if comm.rank == 0:
    print("sum", total, "expected", 1770.0 * sum(range(40)))
