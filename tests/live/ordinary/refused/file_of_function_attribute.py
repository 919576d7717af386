"""A function of another file keeps the last value as its own attribute."""

import time
import resize_lib
from _file_of_function_attribute import change

rs = resize_lib.session()
u = rs.array("u", 30, init=lambda i: 1.0 * i)
total = 0.0
for step in rs.iterations(36):
    u.local[:] += 1
    total += rs.comm.allreduce(change(u.local))
    time.sleep(0.02)
if rs.rank == 0:
    print("sum", total, "expected", 30.0 * 35)
