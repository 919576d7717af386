"""enumerate of zip of two sources and the iterations, last."""

import time
import resize_lib

rs = resize_lib.session()
data = [(i * 31) % 47 for i in range(60)]
total = 0
for k, (x, y, step) in enumerate(zip(data, range(7, 99), rs.iterations(50))):
    total += rs.comm.allreduce(sum(k + x * y + step for _ in range(rs.rank, 5, rs.size)))
    time.sleep(0.02)
if rs.rank == 0:
    print("sum", total, "expected", 5 * sum(2 * i + data[i] * (7 + i) for i in range(50)))
