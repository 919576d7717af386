"""Each rank adds to an array in a list, by a name for that array."""

import numpy as np

import resize_lib

rs = resize_lib.session()
arrays = [np.zeros(3), np.zeros(3)]  # refused
for step in rs.iterations(40):
    first = arrays[0]
    for i in range(rs.rank, 12, rs.size):
        first[i % 3] += i  # refused
total = rs.comm.allreduce(float(sum(array.sum() for array in arrays)))
if rs.rank == 0:
    print("sum", total, "expected", 66.0 * 40)
