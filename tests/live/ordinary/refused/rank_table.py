"""A table of which rank has which item, made before the loop."""

import resize_lib

rs = resize_lib.session()
owner = {i: i % rs.size for i in range(20)}  # refused
total = 0
for step in rs.iterations(40):
    total += rs.comm.allreduce(sum(step * i for i in range(20) if owner[i] == rs.rank))
if rs.rank == 0:
    print("sum", total, "expected", 190 * 780)
