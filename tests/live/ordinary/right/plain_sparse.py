"""A scipy matrix that is not declared, whose entries change, and a tree for look-ups."""

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree

import resize_lib


def advance(A, x, points, s):
    A.data *= 0.99
    A[s % 8, (s * 3) % 8] = 1.0 + s / 10
    x[:] = 0.5 * x + 0.1 * (A @ x)
    return float(x.sum()) + cKDTree(points).query([[0.1 * (s % 10), 0.5]])[1][0]


def made():
    points = np.random.default_rng(2).random((20, 2))
    return sp.lil_matrix(np.eye(8)).tocsr(), np.ones(8), points


import warnings

warnings.simplefilter("ignore")
rs = resize_lib.session()
A, x, points = made()
tree = cKDTree(points)
total = 0.0
for step in rs.iterations(45):
    value = advance(A, x, points, step) + tree.n
    total += rs.comm.allreduce(sum(value for _ in range(rs.rank, 3, rs.size)))
if rs.rank == 0:
    other = made()
    print("sum", total, "expected", sum(3 * (advance(*other, s) + 20) for s in range(45)))
