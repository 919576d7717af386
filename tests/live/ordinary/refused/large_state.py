"""80 MB that each iteration changes, alike on all ranks, and nobody has declared."""

import numpy as np

import resize_lib

rs = resize_lib.session()
field = np.zeros(10_000_000)  # refused
total = 0.0
for step in rs.iterations(40):
    field[step * 1000 : step * 1000 + 100_000] += step  # refused
    total += rs.comm.allreduce(float(field[:200_000][rs.rank :: rs.size].sum()))
if rs.rank == 0:
    other, expected = np.zeros(200_000), 0.0
    for step in range(40):
        other[step * 1000 : step * 1000 + 100_000] += step
        expected += other.sum()
    print("sum", total, "expected", float(expected))
