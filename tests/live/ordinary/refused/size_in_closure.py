"""A function made before the loop remembers the size."""

import resize_lib


def divider(size):
    def divide(x):
        return x / size

    return divide


rs = resize_lib.session()
mean = divider(rs.size)  # refused
total = 0.0
for step in rs.iterations(40):
    total += rs.comm.allreduce(mean(step * 6.0))
if rs.rank == 0:
    print("sum", total, "expected", 6 * 780.0)
