"""The length of a rank's part is computed once, before the loop."""

import resize_lib

N = 60
rs = resize_lib.session()
chunk = N // rs.size  # refused
total = 0
for step in rs.iterations(40):
    start = rs.rank * chunk
    total += rs.comm.allreduce(sum(step + i for i in range(start, start + chunk)))
if rs.rank == 0:
    print("sum", total, "expected", sum(60 * k + 1770 for k in range(40)))
