"""accumulate around the iterations."""

import itertools, time
import resize_lib

rs = resize_lib.session()
total = 0
for x in itertools.accumulate(rs.iterations(50)):  # refused
    total += rs.comm.allreduce(sum(x for _ in range(rs.rank, 5, rs.size)))
    time.sleep(0.02)
if rs.rank == 0:
    print("sum", total, "expected", 5 * sum(itertools.accumulate(range(50))))
