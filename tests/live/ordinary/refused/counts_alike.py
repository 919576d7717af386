"""Every rank counts its batches, all alike, and the counts are added up at the end."""

import time

import resize_lib

rs = resize_lib.session()
comm = rs.comm
samples = batches = 0
for _ in rs.iterations(40):
    samples += len(comm.allgather(comm.rank))
    batches += 1
    time.sleep(0.005)
missing = comm.allreduce(batches) - samples  # refused
if comm.rank == 0:
    print("sum", missing, "expected", 0)
