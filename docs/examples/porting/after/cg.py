"""Conjugate gradients for Poisson's equation on a square, the matrix distributed by rows.

Arguments: POINTS FILE
"""

import sys

import numpy as np
from mpi4py import MPI
from scipy import sparse

import resize_lib

TOLERANCE = 1e-10


def poisson(m, rows):
    """These rows of the matrix of the five-point stencil on m x m points."""
    i, j = rows // m, rows % m
    data, where, columns = [np.full(len(rows), 4.0)], [np.arange(len(rows))], [rows]
    for di, dj in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        inside = (i + di >= 0) & (i + di < m) & (j + dj >= 0) & (j + dj < m)
        columns.append(rows[inside] + di * m + dj)
        where.append(np.flatnonzero(inside))
        data.append(np.full(inside.sum(), -1.0))
    entries = np.concatenate(data), (np.concatenate(where), np.concatenate(columns))
    return sparse.csr_matrix(entries, shape=(len(rows), m * m))


def source(m, rows):
    """The right-hand side there."""
    x, y = rows // m / m, rows % m / m
    return x * (1.0 - x) - 2.0 * y


comm = MPI.COMM_WORLD
m, file = int(sys.argv[1]), sys.argv[2]
n = m * m
rs = resize_lib.session()


def dot(a, b):
    """The inner product of two distributed vectors."""
    return comm.allreduce(a @ b)


A = rs.csr("A", (n, n), init=lambda rows: poisson(m, rows))
X = rs.array("x", n)
R = rs.array("r", n, init=lambda rows: source(m, rows))
P = rs.array("p", n, init=lambda rows: source(m, rows))
rr = dot(R.local, R.local)
limit = TOLERANCE**2 * rr
for k in rs.iterations(10 * n):
    x, r, p = X.local, R.local, P.local
    Ap = A.local @ P.allgather()
    alpha = rr / dot(p, Ap)
    x += alpha * p
    r -= alpha * Ap
    rr_old, rr = rr, dot(r, r)
    if rr <= limit:
        break
    p *= rr / rr_old
    p += r
    if comm.rank == 0 and k % 50 == 0:
        print(f"iteration {k}: residual {np.sqrt(rr):.3e}", flush=True)

solution = X.gather()
if comm.rank == 0:
    print(f"{k + 1} iterations", flush=True)
    np.save(file, solution.reshape(m, m))
