"""As many rounds as the ranks need for all items: with other ranks they are too many, or too few."""

import time

import resize_lib

N = 120
rs = resize_lib.session()
comm = rs.comm
total = 0
for turn in rs.iterations(N // comm.size):  # refused
    total += comm.allreduce((turn + 1) * (comm.rank + 1) % 2)
    time.sleep(0.005)
done = comm.allreduce(N // comm.size)
if comm.rank == 0:
    print("sum", done - done % 60, "expected", 120)
