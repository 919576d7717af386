"""A value of the session's to which each rank adds something else."""

import resize_lib

rs = resize_lib.session()
v = rs.value("v", 0)  # refused
for step in rs.iterations(40):
    v.value += step * len(range(rs.rank, 7, rs.size))  # refused
total = rs.comm.allreduce(v.value)
if rs.rank == 0:
    print("sum", total, "expected", 7 * 780)
