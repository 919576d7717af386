"""Each rank walks through its block, an item in each iteration: a resize moves the blocks."""

import time

import resize_lib

N = 48
rs = resize_lib.session()
comm = rs.comm
total = 0
for step in rs.iterations(N):
    first, last = comm.rank * N // comm.size, (comm.rank + 1) * N // comm.size
    i = first + step
    value = 0
    if i < last:  # refused
        value = i * i % 43
    total += comm.allreduce(value)
    time.sleep(0.005)
if comm.rank == 0:
    print("sum", total, "expected", sum(i * i % 43 for i in range(N)))
