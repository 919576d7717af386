"""Memory of ctypes."""

import ctypes
import numpy as np

import resize_lib


cells = (ctypes.c_double * 4)()
number = ctypes.c_int(0)
rs = resize_lib.session()
x = rs.array("x", 24)
total = 0
for step in rs.iterations(50):
    x.local += 1
    cells[step % 4] += step
    number.value += 1
    value = sum(cells) + number.value
    total += rs.comm.bcast(value, rs.size - 1)


if rs.rank == 0:
    print("sum", total, "expected", 22100.0)
