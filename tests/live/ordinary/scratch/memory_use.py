"""The peak of this process's memory and its processor time, sampled in each iteration."""

import os
import resource

import resize_lib

rs = resize_lib.session()
pid = os.getpid()
peak = 0
usage = []
total = 0
for step in rs.iterations(50):
    now = resource.getrusage(resource.RUSAGE_SELF)
    peak = max(peak, now.ru_maxrss)
    usage.append(now.ru_utime + now.ru_stime)
    total += rs.comm.allreduce(sum(range(rs.rank, 20, rs.size)))
if rs.rank == 0:
    print(f"process {pid}: {peak} KiB, {usage[-1] - usage[0]:.2f} s")
    print("sum", total, "expected", 50 * 190)
