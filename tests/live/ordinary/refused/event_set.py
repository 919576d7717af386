"""An event of threading that the loop sets."""

import threading
import resize_lib

rs = resize_lib.session()
N = 40
warm = threading.Event()  # refused
total = 0
for step in rs.iterations(N):
    if step == 3:
        warm.set()
    total += rs.comm.allreduce(2.0 if warm.is_set() else 1.0) / rs.size
if rs.rank == 0:
    print(f"sum {total} expected {3 + 2.0 * (N - 3)}")
