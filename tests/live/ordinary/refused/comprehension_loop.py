"""The loop is a list comprehension, whose list nobody can see before it is complete."""

import resize_lib

rs = resize_lib.session()


def work(step):
    return rs.comm.allreduce(sum(step * i for i in range(rs.rank, 5, rs.size)))


values = [work(step) for step in rs.iterations(40)]  # refused
total = rs.comm.allreduce(sum(values)) // rs.size
if rs.rank == 0:
    print("sum", total, "expected", 7800)
