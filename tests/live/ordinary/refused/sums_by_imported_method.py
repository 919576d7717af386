"""Per-rank sums by a method of another file's class."""

import resize_lib
from _tallies import Tally

rs = resize_lib.session()
tally = Tally()  # refused
for step in rs.iterations(40):
    for i in range(rs.rank, 12, rs.size):
        tally.add(i)  # refused
total = rs.comm.allreduce(tally.count)
if rs.rank == 0:
    print("sum", total, "expected", 66 * 40)
