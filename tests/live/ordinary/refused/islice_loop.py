"""islice around the iterations."""

import itertools, time
import resize_lib

rs = resize_lib.session()
total = 0
for step in itertools.islice(rs.iterations(90), 0, 40):  # refused
    total += rs.comm.allreduce(sum(step for _ in range(rs.rank, 5, rs.size)))
    time.sleep(0.02)
if rs.rank == 0:
    print("sum", total, "expected", 5 * sum(range(40)))
