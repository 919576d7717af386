"""Per-rank sums by a function of another file, in its global."""

import resize_lib
import _tallies

rs = resize_lib.session()
for step in rs.iterations(40):
    for i in range(rs.rank, 12, rs.size):
        _tallies.count("a", i)
total = rs.comm.allreduce(_tallies.counts["a"])
if rs.rank == 0:
    print("sum", total, "expected", 66 * 40)
