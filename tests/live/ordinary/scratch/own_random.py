"""Monte Carlo with a random stream of its own on each rank."""

import numpy as np

import resize_lib

rs = resize_lib.session()
rng = np.random.default_rng([7, rs.rank])
samples = inside = 0
for step in rs.iterations(50):
    n = len(range(rs.rank, 600, rs.size))
    points = rng.random((n, 2))
    both = rs.comm.allreduce(np.array([n, int(((points**2).sum(axis=1) < 1).sum())]))
    samples += int(both[0])
    inside += int(both[1])
if rs.rank == 0:
    near = abs(4 * inside / samples - np.pi) < 0.1  # 7 sigma
    print("sum", samples + near, "expected", 50 * 600 + 1)
