"""Views: rows of one flat parameter vector under several names."""

import numpy as np

import resize_lib

flat = np.zeros(12)
weights = flat[:8].reshape(2, 4)
bias = flat[8:]
transposed = weights.T

rs = resize_lib.session()
for step in rs.iterations(50):
    push = 1.0 + 0.01 * weights[1, 2] + 0.1 * bias[1]
    g = rs.comm.allreduce(push * np.arange(12.0) * len(range(rs.rank, 4, rs.size)) / 4)
    if step % 2:
        flat += 0.1 * g
    else:
        weights *= 0.9
        bias -= 0.01 * step
    transposed[3, 1] += 1.0
if rs.rank == 0:
    x = np.zeros(12)
    for step in range(50):
        if step % 2:
            x += 0.1 * (1.0 + 0.01 * x[6] + 0.1 * x[9]) * np.arange(12.0)
        else:
            x[:8] *= 0.9
            x[8:] -= 0.01 * step
        x[7] += 1.0
    print("w", float(flat @ np.arange(12)), "expected", float(x @ np.arange(12)))
