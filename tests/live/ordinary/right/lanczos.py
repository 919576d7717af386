"""Lanczos: a list of vectors that grows, and the coefficients of a tridiagonal matrix."""

from mpi4py import MPI
import numpy as np
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
n = 80
diagonal = np.linspace(1, 9, n) ** 2


def apply(v):
    out = np.zeros(n)
    for i in range(comm.rank, n, comm.size):
        out[i] = diagonal[i] * v[i] + (v[i - 1] if i else 0) + (v[i + 1] if i < n - 1 else 0)
    return comm.allreduce(out)


basis, alpha, beta = [np.ones(n) / np.sqrt(n)], [], [0.0]
for k in rs.iterations(30):
    w = apply(basis[-1])
    if k:
        w -= beta[-1] * basis[-2]
    alpha.append(w @ basis[-1])
    w -= alpha[-1] * basis[-1]
    for q in basis:
        w -= (w @ q) * q
    beta.append(float(np.linalg.norm(w)))
    basis.append(w / beta[-1])
if comm.rank == 0:
    T = np.diag(alpha) + np.diag(beta[1:-1], 1) + np.diag(beta[1:-1], -1)
    H = np.diag(diagonal) + np.eye(n, k=1) + np.eye(n, k=-1)
    print(
        "w",
        round(float(np.linalg.eigvalsh(T)[-1]), 6),
        "expected",
        round(float(np.linalg.eigvalsh(H)[-1]), 6),
    )
