"""As rank_sums, in an attribute that a method changes."""

import resize_lib


class Tally:
    def __init__(self):
        self.count = 0  # refused

    def add(self, x):
        self.count += x  # refused


rs = resize_lib.session()
tally = Tally()  # refused
for step in rs.iterations(40):
    for i in range(rs.rank, 12, rs.size):
        tally.add(i)
total = rs.comm.allreduce(tally.count)
if rs.rank == 0:
    print("sum", total, "expected", 66 * 40)
