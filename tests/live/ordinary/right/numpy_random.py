"""numpy's global generator, seeded alike on every rank: the same permutation everywhere."""

import numpy as np

import resize_lib

rs = resize_lib.session()
np.random.seed(3)
x = np.arange(40)
total = 0
for step in rs.iterations(50):
    order = np.random.permutation(40)
    total += rs.comm.allreduce(int((order[rs.rank :: rs.size] * x[rs.rank :: rs.size]).sum()))
if rs.rank == 0:
    np.random.seed(3)
    print("sum", total, "expected", sum(int(np.random.permutation(40) @ x) for _ in range(50)))
