"""A bit generator of numpy, and the generator that draws from it."""

import numpy as np

import resize_lib


bits = np.random.PCG64(3)
rng = np.random.Generator(bits)
rs = resize_lib.session()
x = rs.array("x", 24)
total = 0
for step in rs.iterations(50):
    x.local += 1
    value = float(rng.random()) + bits.random_raw() % 1000
    total += rs.comm.bcast(value, rs.size - 1)


if rs.rank == 0:
    print("sum", total, "expected", 26243.492526658367)
