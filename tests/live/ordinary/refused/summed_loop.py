"""The loop is a generator expression inside of sum."""

import resize_lib

rs = resize_lib.session()


def work(step):
    return rs.comm.allreduce(sum(step * i for i in range(rs.rank, 5, rs.size)))


total = sum(work(step) for step in rs.iterations(40))  # refused
total = rs.comm.allreduce(total) // rs.size
if rs.rank == 0:
    print("sum", total, "expected", 7800)
