"""A duplicate of the communicator, made before the loop for a library of one's own."""

import resize_lib

rs = resize_lib.session()
comm = rs.comm.Dup()  # refused
total = 0
for step in rs.iterations(40):
    total += comm.allreduce(sum(step * i for i in range(comm.rank, 6, comm.size)))  # refused
if comm.rank == 0:
    print("sum", total, "expected", 15 * 780)
