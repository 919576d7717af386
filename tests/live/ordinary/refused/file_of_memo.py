"""A memo decorator with a dict in its closure, and a loader of the rank's shard, in another file."""

import time
import resize_lib
from _file_of_memo import shard

rs = resize_lib.session()
total = 0
for step in rs.iterations(36):
    total += rs.comm.allreduce(sum(shard(step % 5, rs.comm)))
    time.sleep(0.02)
if rs.rank == 0:
    print("sum", total, "expected", sum(sum(i * (s % 5) for i in range(24)) for s in range(36)))
