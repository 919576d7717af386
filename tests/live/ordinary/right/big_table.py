"""A table of 20 MB that every rank builds and nobody changes."""

import numpy as np

import resize_lib

table = np.arange(2_500_000, dtype=np.float64) % 1000
rows = {"low": table[:1_250_000], "high": table[1_250_000:]}

rs = resize_lib.session()
at, total = 1, 0.0
for step in rs.iterations(45):
    at = (at * 16807 + step) % 2_400_000
    part = table[at : at + 30][rs.rank :: rs.size]
    total += rs.comm.allreduce(float(part.sum())) + rows["high"][at % 1000]
if rs.rank == 0:
    at, expected = 1, 0.0
    for step in range(45):
        at = (at * 16807 + step) % 2_400_000
        expected += float(table[at : at + 30].sum()) + (1_250_000 + at % 1000) % 1000
    print("sum", total, "expected", expected)
