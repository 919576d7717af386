"""A histogram of this rank's samples in a numpy array, reduced after the loop."""

import numpy as np

import resize_lib

rs = resize_lib.session()
histogram = np.zeros(5, dtype=np.int64)  # refused
for step in rs.iterations(40):
    samples = (np.arange(rs.rank, 21, rs.size) * 7 + step) % 5
    histogram += np.bincount(samples, minlength=5)  # refused
total = rs.comm.allreduce(histogram)
if rs.rank == 0:
    print(
        "sum",
        int(total @ np.arange(5)),
        "expected",
        sum((i * 7 + s) % 5 for s in range(40) for i in range(21)),
    )
