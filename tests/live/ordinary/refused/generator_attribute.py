"""A generator expression in an object, advanced by a method."""

import resize_lib


class Stream:
    def __init__(self):
        self.values = (x * x % 23 for x in range(1000))  # refused

    def draw(self):
        return next(self.values)


rs = resize_lib.session()
stream = Stream()
result = 0
for step in rs.iterations(40):
    value = stream.draw()
    result += rs.comm.allreduce(sum(value for _ in range(rs.rank, 5, rs.size)))
if rs.rank == 0:
    print("sum", result, "expected", 5 * sum(x * x % 23 for x in range(40)))
