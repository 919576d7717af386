"""Conjugate gradient, rows of the matrix by rank; the loop ends when the residual is small."""

from mpi4py import MPI
import numpy as np
import resize_lib

comm = MPI.COMM_WORLD
n = 60
A = 2.05 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
b = np.arange(1.0, n + 1)


def times(p):
    rows = np.array_split(np.arange(n), comm.size)[comm.rank]
    return np.concatenate(comm.allgather(A[rows] @ p))


rs = resize_lib.session()
x = np.zeros(n)
r = b - A @ x
p, rho = r.copy(), r @ r
for it in rs.iterations(500):
    q = times(p)
    alpha = rho / (p @ q)
    x += alpha * p
    r -= alpha * q
    rho, before = r @ r, rho
    if rho < 1e-22 * (b @ b):
        break
    p = r + rho / before * p
if comm.rank == 0:
    exact = np.linalg.solve(A, b)
    print("w", round(float(x @ b), 5), "expected", round(float(exact @ b), 5))
