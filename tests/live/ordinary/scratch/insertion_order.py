"""A dictionary of what this rank has met, in another order on each."""

import resize_lib

rs = resize_lib.session()
met = {}
latest = None
total = 0
for step in rs.iterations(50):
    for i in range((rs.rank + step) % rs.size, 10, rs.size):
        met.pop(i, None)
        met[i] = f"item {i}"
        latest = met[i]
    total += rs.comm.allreduce(sum(len(met[i]) for i in range(rs.rank, 10, rs.size) if i in met))
    total -= rs.comm.allreduce(sum(6 for i in range(rs.rank, 10, rs.size) if i in met))
    total += rs.comm.allreduce(len(range(rs.rank, 10, rs.size)))
if rs.rank == 0:
    print("the latest:", latest)
    print("sum", total, "expected", 500)
