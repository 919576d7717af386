"""The power method: a vector that is filled in place, a matrix that nobody changes, a norm."""

import numpy as np

import resize_lib

n = 24
A = np.fromfunction(lambda i, j: 1.0 / (1 + abs(i - j)), (n, n))
x = np.ones(n)
scale = np.float64(0.0)

rs = resize_lib.session()
for step in rs.iterations(40):
    y = np.zeros(n)
    rows = np.arange(rs.rank, n, rs.size)
    y[rows] = A[rows] @ x
    y = rs.comm.allreduce(y)
    scale = np.linalg.norm(y)
    x *= 0.5
    x += 0.5 * y / scale
if rs.rank == 0:
    z = np.ones(n)
    for _ in range(40):
        z = 0.5 * z + 0.5 * (A @ z) / np.linalg.norm(A @ z)
    weights = np.arange(n)
    print("sum", float(x @ weights), "expected", float(z @ weights))
