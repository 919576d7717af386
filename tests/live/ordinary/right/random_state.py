"""numpy.random.RandomState, and a bit generator by itself."""

import numpy as np

import resize_lib

rs = resize_lib.session()
old = np.random.RandomState(4)
bits = np.random.PCG64(9)
new = np.random.Generator(bits)
total = 0.0
for step in rs.iterations(45):
    values = old.normal(size=6) + new.integers(0, 10, 6)
    total += rs.comm.allreduce(float(values[rs.rank :: rs.size].sum()))
if rs.rank == 0:
    old, new = np.random.RandomState(4), np.random.default_rng(9)
    draws = [float((old.normal(size=6) + new.integers(0, 10, 6)).sum()) for _ in range(45)]
    print("sum", total, "expected", sum(draws))
