"""Each rank adds up for itself; the sums are reduced after the loop only."""

import resize_lib

rs = resize_lib.session()
mine = 0  # refused
for step in rs.iterations(40):
    for i in range(rs.rank, 12, rs.size):
        mine += step * i  # refused
total = rs.comm.allreduce(mine)
if rs.rank == 0:
    print("sum", total, "expected", 66 * 780)
