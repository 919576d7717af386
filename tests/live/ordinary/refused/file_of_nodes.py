"""nodes() of another file's class; each rank advances its nodes in a dict. From 2 ranks."""

import time
import resize_lib
from _file_of_nodes import Partition

rs = resize_lib.session()
part = Partition(rs.comm)
temps = {i: float(i) for i in range(24)}  # refused
for step in rs.iterations(36):
    for i in part.nodes(24):
        temps[i] = 0.9 * temps[i] + step  # refused
    time.sleep(0.02)
total = rs.comm.allreduce(sum(temps[i] for i in part.nodes(24)))
if rs.rank == 0:
    x = [float(i) for i in range(24)]
    for s in range(36):
        x = [0.9 * v + s for v in x]
    print("sum", round(total, 6), "expected", round(sum(x), 6))
