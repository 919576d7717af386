"""chain around the iterations."""

import itertools, time
import resize_lib

rs = resize_lib.session()
total = 0
for x in itertools.chain(rs.iterations(50), [1000]):
    total += rs.comm.allreduce(sum(x for _ in range(rs.rank, 5, rs.size)))
    time.sleep(0.02)
if rs.rank == 0:
    print("sum", total, "expected", 5 * (sum(range(50)) + 1000))
