"""10 MB of parameters that every iteration changes, alike on all ranks."""

import numpy as np

import resize_lib

rs = resize_lib.session()
weights = [np.zeros(250_000) for _ in range(5)]
velocity = {"norm": 0.0}
total = 0.0
for step in rs.iterations(40):
    g = rs.comm.allreduce(sum(0.5 for _ in range(rs.rank, 4, rs.size)))
    for k, w in enumerate(weights):
        w[step :: 40 + k] += g * (k + 1)
    velocity["norm"] += weights[step % 5][:1000].sum()
    total += rs.comm.allreduce(sum(velocity["norm"] for _ in range(rs.rank, 2, rs.size)))
if rs.rank == 0:
    v, norm, expected = [np.zeros(1000) for _ in range(5)], 0.0, 0.0
    for step in range(40):
        for k, w in enumerate(v):
            w[step :: 40 + k] += 2.0 * (k + 1)
        norm += v[step % 5].sum()
        expected += 2 * norm
    print("sum", total, "expected", float(expected))
