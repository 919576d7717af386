"""A value to which each rank adds its own number; only rank 0 prints its one at the end."""

import time

import resize_lib

rs = resize_lib.session()
v = rs.value("v", 0)  # refused
for step in rs.iterations(40):
    v.value += rs.rank + 1  # refused
    time.sleep(0.02)
if rs.rank == 0:
    print("sum", v.value, "expected", 40)
