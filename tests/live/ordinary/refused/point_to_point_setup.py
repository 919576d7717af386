"""The set-up is passed along from rank to rank before the loop."""

import resize_lib

rs = resize_lib.session()
comm = rs.comm
if comm.rank == 0:
    offset = 17
else:
    offset = comm.recv(source=comm.rank - 1)  # refused
if comm.rank < comm.size - 1:
    comm.send(offset, dest=comm.rank + 1)  # refused
total = 0
for step in rs.iterations(40):
    total += comm.allreduce(sum(offset * i for i in range(comm.rank, 6, comm.size)))
if comm.rank == 0:
    print("sum", total, "expected", 40 * 15 * 17)
