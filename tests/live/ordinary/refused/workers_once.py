"""The ranks are counted once, in the first iteration."""

import time

import resize_lib

rs = resize_lib.session()
comm = rs.comm
workers = None  # refused
total = 0
for t in rs.iterations(40):
    if workers is None:
        workers = comm.allreduce(1)  # refused
    total += comm.allreduce(sum(k * t % 11 for k in range(comm.rank, 12, workers)))
    time.sleep(0.005)
if comm.rank == 0:
    print("sum", total, "expected", sum(k * t % 11 for t in range(40) for k in range(12)))
