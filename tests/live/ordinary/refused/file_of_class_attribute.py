"""A static method of another file's class sets an attribute of the class by its name."""

import time
import resize_lib
from _file_of_class_attribute import Meter

rs = resize_lib.session()
u = rs.array("u", 30, init=lambda i: 1.0 * i)
total = 0.0
for step in rs.iterations(36):
    u.local[:] += 1
    total += rs.comm.allreduce(Meter.change(float(u.local.sum())))
    time.sleep(0.02)
if rs.rank == 0:
    print("sum", total, "expected", 435 + 30.0 * 36)
