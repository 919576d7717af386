"""The largest value that this rank has met, reduced after the loop."""

from mpi4py import MPI

import resize_lib

rs = resize_lib.session()
largest = -1  # refused
for step in rs.iterations(40):
    for i in range(rs.rank, 10, rs.size):
        largest = max(largest, (step * 37 + i * 101) % 1009)  # refused
top = rs.comm.allreduce(largest, MPI.MAX)
if rs.rank == 0:
    print(
        "sum", top, "expected", max((s * 37 + i * 101) % 1009 for s in range(40) for i in range(10))
    )
