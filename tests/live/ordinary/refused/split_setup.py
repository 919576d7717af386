"""A communicator is split off before the loop."""

import resize_lib

rs = resize_lib.session()
half = rs.comm.Split(rs.rank % 2, rs.rank)  # refused
total = 0
for step in rs.iterations(40):
    mine = half.allreduce(sum(step * i for i in range(rs.rank, 6, rs.size)))  # refused
    total += rs.comm.allreduce(mine if half.rank == 0 else 0)
if rs.rank == 0:
    print("sum", total, "expected", 15 * 780)
