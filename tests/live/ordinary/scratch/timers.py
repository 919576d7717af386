"""How long the parts of the iterations took on this rank, added up and printed at the end."""

import time

import resize_lib

rs = resize_lib.session()
started = time.perf_counter()
computing = communicating = 0.0
slowest = 0.0
total = 0
for step in rs.iterations(50):
    begin = time.perf_counter()
    mine = sum(step * i for i in range(rs.rank, 50, rs.size))
    middle = time.perf_counter()
    computing += middle - begin
    total += rs.comm.allreduce(mine)
    communicating += time.perf_counter() - middle
    slowest = max(slowest, time.perf_counter() - begin)
if rs.rank == 0:
    print(
        f"{computing:.3f} s of computing, {communicating:.3f} s of messages, {slowest:.3f} s at most"
    )
    print(f"{time.perf_counter() - started:.1f} s in all")
    print("sum", total, "expected", 1225 * 1225)
