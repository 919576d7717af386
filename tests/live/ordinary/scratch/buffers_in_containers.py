"""Work arrays in lists and dicts, filled by way of loop variables and other names."""

import numpy as np

import resize_lib

rs = resize_lib.session()
halves = [np.zeros(20), np.zeros(20)]
by_name = {"low": np.zeros(20), "high": np.zeros(20)}
total = 0
for step in rs.iterations(50):
    mine = np.zeros(20)
    mine[rs.rank :: rs.size] = np.arange(20.0)[rs.rank :: rs.size]
    for k, half in enumerate(halves):
        half[:] = mine * (k + 1)
    for name, array in by_name.items():
        array.fill(0.0)
        np.add(array, halves[0], out=array)
    high = by_name["high"]
    np.copyto(high, halves[1])
    total += rs.comm.allreduce(float(by_name["low"].sum() + high.sum()))
if rs.rank == 0:
    print("sum", total, "expected", 50 * 3 * 190.0)
