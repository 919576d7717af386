"""How numpy treats errors, changed by the loop."""

import numpy as np

import resize_lib


level = 0
rs = resize_lib.session()
x = rs.array("x", 24)
total = 0
for step in rs.iterations(50):
    x.local += 1
    if step == 10:
        np.seterr(over="raise")
    with np.errstate():
        try:
            np.float64(1e308) * np.float64(10 if step % 3 == 0 else 1)
        except FloatingPointError:
            level += 1
    value = level
    total += rs.comm.bcast(value, rs.size - 1)


if rs.rank == 0:
    print("sum", total, "expected", 260)
