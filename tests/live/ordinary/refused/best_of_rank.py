"""Each rank keeps the best candidate it has seen as a tuple, and they are compared at the end."""

import time

import resize_lib


def cost(x):
    return (x * 7919 + 13) % 10007


rs = resize_lib.session()
comm = rs.comm
best = (10**9, None)  # refused
for it in rs.iterations(40):
    for x in range(it * 20 + comm.rank, it * 20 + 20, comm.size):
        if cost(x) < best[0]:
            best = (cost(x), x)  # refused
    time.sleep(0.005)
found = min(comm.allgather(best))
if comm.rank == 0:
    want = min((cost(x), x) for x in range(800))
    print("sum", found[0] * 1000 + found[1], "expected", want[0] * 1000 + want[1])
