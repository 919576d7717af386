"""What each process does once: a banner, a warm-up, threads and a clock offset."""

import threading
import time
import warnings

import resize_lib

rs = resize_lib.session()
offset = time.time() - time.monotonic()
local = threading.local()
first = True
total = 0
for step in rs.iterations(50):
    if first:
        local.table = [i * i for i in range(100)]
        warnings.warn("warming up", stacklevel=1)
        first = False
    stamp = time.monotonic() + offset
    total += rs.comm.allreduce(sum(local.table[i] for i in range(rs.rank, 100, rs.size)))
if rs.rank == 0:
    print(time.strftime("%H:%M", time.localtime(stamp)))
    print("sum", total, "expected", 50 * 328350)
