"""Statistics of one step in a dataclass that is made anew by the driver's method."""

import time
import resize_lib
from _file_of_stats_object import Driver

rs = resize_lib.session()
d = Driver(rs)
for step in rs.iterations(36):
    d.step()
    d.report()
    time.sleep(0.02)
if rs.rank == 0:
    print("sum", d.total, "expected", sum(435.0 + 30 * (k + 1) for k in range(36)))
