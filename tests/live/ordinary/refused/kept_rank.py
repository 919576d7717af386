"""The rank is asked for once, before the loop, as most programs do, and used in it."""

import resize_lib

rs = resize_lib.session()
rank = rs.comm.Get_rank()  # refused
total = 0
for step in rs.iterations(40):
    total += rs.comm.allreduce(sum(step * i for i in range(rank, 9, rs.comm.Get_size())))
if rank == 0:
    print("sum", total, "expected", 36 * 780)
