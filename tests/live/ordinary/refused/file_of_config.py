"""The first iteration sets attributes of a module to the rank's range. From 1 rank."""

import time
import resize_lib
import _file_of_config as config

rs = resize_lib.session()
total = 0
for step in rs.iterations(36):
    if step == 0:
        config.first = 24 * rs.rank // rs.size  # refused
        config.last = 24 * (rs.rank + 1) // rs.size  # refused
    total += rs.comm.allreduce(config.kernel(step))
    time.sleep(0.02)
if rs.rank == 0:
    print("sum", total, "expected", 276 * sum(range(36)))
