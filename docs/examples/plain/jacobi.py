"""Jacobi iteration for Laplace's equation on a square plate.

docs/examples/plain/jacobi.py is plain mpi4py, apps/jacobi.py is the same made resizable.
Compare them with diff. Both take the number of rows and the number of sweeps:

    mpiexec -n 4 python apps/jacobi.py 2000 100
"""

import sys

import numpy as np
from mpi4py import MPI


def plate(rows, n):
    """The rows of the plate at the start: the top edge is hot, the rest is cold."""
    return np.where(np.asarray(rows)[:, None] == 0, 1.0, 0.0) * np.ones(n)


def rows_of(comm, n):
    """The rows of this rank: a block, the first ranks hold one more if n cannot be shared."""
    share, extra = divmod(n, comm.size)
    first = comm.rank * share + min(comm.rank, extra)
    return np.arange(first, first + share + (comm.rank < extra))


def sweep(comm, u):
    """One Jacobi sweep over the local rows `u`, in place; returns the largest change anywhere."""
    above, below = np.zeros(u.shape[1]), np.zeros(u.shape[1])
    up = comm.rank - 1 if comm.rank > 0 else MPI.PROC_NULL
    down = comm.rank + 1 if comm.rank < comm.size - 1 else MPI.PROC_NULL
    comm.Sendrecv(u[-1], down, recvbuf=above, source=up)
    comm.Sendrecv(u[0], up, recvbuf=below, source=down)
    v = np.vstack([above, u, below])
    new = 0.25 * (v[:-2, 1:-1] + v[2:, 1:-1] + v[1:-1, :-2] + v[1:-1, 2:])
    first, last = comm.rank == 0, comm.rank == comm.size - 1
    inner = slice(1 if first else 0, len(u) - 1 if last else len(u))  # the edges stay
    change = np.abs(new[inner] - u[inner, 1:-1]).max(initial=0.0)
    u[inner, 1:-1] = new[inner]
    return comm.allreduce(change, MPI.MAX)


def main():
    """Prints the last change, which is the same for any number of ranks."""
    n, steps = int(sys.argv[1]), int(sys.argv[2])
    job = MPI.COMM_WORLD
    u = plate(rows_of(job, n), n)
    change = 0.0
    for _ in range(steps):
        change = sweep(job, u)
    if job.rank == 0:
        print(f"change {change:.17g}", flush=True)


if __name__ == "__main__":
    main()
