"""Jacobi sweeps without temporary arrays: a fair base for the relative cost of redistribution.

    mpiexec -n 4 python -m experiments.jacobi_sweeps --n 4000 --iterations 10

apps/jacobi.py is written to be read, and spends most of its time on temporary arrays. Here a sweep
processes the rows in slices that fit in the cache, from one permanent array to another.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

import resize_lib

SLICE_BYTES = 256 << 10  # rows handled at a time

Rows = NDArray[np.float64]


def sweep(rs: Any, u: Rows, new: Rows) -> None:
    """One sweep from `u` to `new` (local rows, same shape); the edges are fixed. Collective."""
    comm = rs.comm
    above, below = np.zeros(u.shape[1]), np.zeros(u.shape[1])
    up = comm.rank - 1 if comm.rank > 0 else MPI.PROC_NULL
    down = comm.rank + 1 if comm.rank < comm.size - 1 else MPI.PROC_NULL
    comm.Sendrecv(u[-1], down, recvbuf=above, source=up)
    comm.Sendrecv(u[0], up, recvbuf=below, source=down)
    with rs.compute():
        step = max(1, SLICE_BYTES // u[0].nbytes)
        for low in range(0, len(u), step):
            average(u, new, low, min(low + step, len(u)), above, below)
        new[:, 0], new[:, -1] = u[:, 0], u[:, -1]
        if up == MPI.PROC_NULL:
            new[0] = u[0]
        if down == MPI.PROC_NULL:
            new[-1] = u[-1]


def average(u: Rows, new: Rows, low: int, high: int, above: Rows, below: Rows) -> None:
    """Rows low … high-1 of `new` without the edges: the mean of the four neighbours."""
    out = new[low:high, 1:-1]
    np.add(u[low:high, :-2], u[low:high, 2:], out=out)
    for row, (offset, halo) in ((low - 1, (0, above)), (high, (high - low - 1, below))):
        neighbour = u[row] if 0 <= row < len(u) else halo
        out[offset] += neighbour[1:-1]
    out[1:] += u[low : high - 1, 1:-1]
    out[:-1] += u[low + 1 : high, 1:-1]
    out *= 0.25


def main() -> int:
    """Prints the sum over the plate, which is the same for any number of ranks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=4000)
    parser.add_argument("--iterations", type=int, default=10)
    options = parser.parse_args()
    n = options.n
    with resize_lib.session() as rs:
        u = rs.array("u", n, (n,), init=lambda rows: (np.asarray(rows)[:, None] == 0) * np.ones(n))
        new: Rows = np.empty((0, n))
        for _ in rs.iterations(options.iterations):
            if new.shape != u.local.shape:
                new = np.empty_like(u.local)
            sweep(rs, u.local, new)
            u.local[...] = new
        total = rs.comm.allreduce(float(u.local.sum()), MPI.SUM)
        if rs.rank == 0:
            print(f"sum {total:.10g}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
