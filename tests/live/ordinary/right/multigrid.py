"""A V-cycle that calls itself: lists of arrays, one for each level; rows of the finest by rank."""

from mpi4py import MPI
import numpy as np
import resize_lib

comm = MPI.COMM_WORLD


def residual(u, f, h):
    r = np.zeros_like(u)
    for i in range(1 + comm.rank, len(u) - 1, comm.size):
        r[i] = f[i] - (2 * u[i] - u[i - 1] - u[i + 1]) / h**2
    return comm.allreduce(r)


def cycle(levels, k, f, h):
    u = levels[k]
    for _ in range(2):
        u[1:-1] += 0.5 * h * h * residual(u, f, h)[1:-1] * 0.9
    if k + 1 < len(levels):
        r = residual(u, f, h)
        levels[k + 1][:] = 0
        cycle(levels, k + 1, r[::2].copy(), 2 * h)
        u[::2] += levels[k + 1]
        u[1::2] += (levels[k + 1][:-1] + levels[k + 1][1:]) / 2
    for _ in range(2):
        u[1:-1] += 0.5 * h * h * residual(u, f, h)[1:-1] * 0.9


rs = resize_lib.session()
n = 33
x = np.linspace(0, 1, n)
f = np.pi**2 * np.sin(np.pi * x)
levels = [np.zeros(32 // 2**k + 1) for k in range(4)]
norms = []
for it in rs.iterations(30):
    cycle(levels, 0, f, 1 / (n - 1))
    norms.append(float(np.abs(levels[0]).max()))
if comm.rank == 0:
    A = (2 * np.eye(n - 2) - np.eye(n - 2, k=1) - np.eye(n - 2, k=-1)) * (n - 1) ** 2
    exact = np.linalg.solve(A, f[1:-1])
    got = float(levels[0].sum()) + len(norms) + norms[-1]
    print("w", round(got, 4), "expected", round(float(exact.sum()) + 30 + float(exact.max()), 4))
