"""A thread that works beside the iterations and counts what it has done."""

import queue
import threading

import resize_lib

jobs, results = queue.Queue(), queue.Queue()


def worker():  # refused
    done = 0
    while (job := jobs.get()) is not None:
        done += 1
        results.put(job * done)


rs = resize_lib.session()
thread = threading.Thread(target=worker, daemon=True)  # refused
thread.start()
total = 0
for step in rs.iterations(40):
    jobs.put(step)
    value = results.get()
    total += rs.comm.allreduce(sum(value for _ in range(rs.rank, 3, rs.size)))
jobs.put(None)
if rs.rank == 0:
    print("sum", total, "expected", 3 * sum(k * (k + 1) for k in range(40)))
