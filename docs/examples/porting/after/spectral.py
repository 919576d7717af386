"""Patterns of the Swift-Hohenberg equation, with Fourier transforms of slabs.

u' = R u - (1 + laplace)**2 u - u**3 on a periodic square; each rank has as many rows as the others.

Arguments: POINTS STEPS FILE
"""

import sys

import numpy as np
from mpi4py import MPI

import resize_lib

R = 0.3
DT = 0.1
LENGTH = 16 * np.pi

comm = MPI.COMM_WORLD
n, steps, file = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
rs = resize_lib.session(legal=("divides", n))


def transpose(slab):
    """Rows of all columns become columns of all rows, or the other way round."""
    sent = np.ascontiguousarray(slab.reshape(m, comm.size, m).swapaxes(0, 1))
    received = np.empty_like(sent)
    comm.Alltoall(sent, received)
    return received.transpose(2, 0, 1).reshape(m, n)


def forward(u):
    """The two-dimensional transform of rows; the result is distributed by columns."""
    return np.fft.fft(transpose(np.fft.fft(u, axis=1)), axis=1)


def backward(spectrum):
    """The rows that have this transform."""
    return np.fft.ifft(transpose(np.fft.ifft(spectrum, axis=1)), axis=1).real


k = 2 * np.pi / LENGTH * np.fft.fftfreq(n, 1 / n)
noise = 0.1 * np.random.default_rng(5).standard_normal((n, n))
U = rs.array("u", n, (n,), init=lambda rows: noise[rows])


@rs.setup
def plan(comm):
    """What depends on the number of ranks."""
    global m, implicit
    m = n // comm.size
    mine = slice(comm.rank * m, (comm.rank + 1) * m)
    k2 = k[mine, np.newaxis] ** 2 + k**2
    implicit = 1.0 / (1.0 - DT * (R - (1.0 - k2) ** 2))


for step in rs.iterations(steps):
    u = U.local
    u[:] = backward(implicit * forward(u - DT * u**3))
    if step % 50 == 0:
        top = comm.allreduce(u.max(), MPI.MAX)
        if comm.rank == 0:
            print(f"step {step}: maximum {top:.6f}", flush=True)

slabs = comm.gather(U.local)
if comm.rank == 0:
    np.save(file, np.concatenate(slabs))
