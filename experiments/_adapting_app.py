"""A flow solver whose grid is refined now and then: the program of experiments.adaptation_phases.

python _adapting_app.py CELLS WORK MOST ASK SWEEPS...: CELLS at first, twice as many after each
adaptation; WORK updates of every cell in a sweep; one number of SWEEPS for each phase. With ASK 1
it asks for as many processors again once there are more than MOST cells per processor.

Prints a line for each phase. A profile is carried round a ring of cells by upwind differences; each
process holds a run of them, and a sweep takes as many ghosts as it makes updates, so the result
does not depend on the number of processes.
"""

from __future__ import annotations

import json
import sys
import time
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
from mpi4py import MPI

import resize_lib

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from resize_lib.descriptors import ProcessGrid

    Cells = NDArray[np.float64]

COURANT = 0.5


def pack(mine: Cells, old: ProcessGrid, rank: int, new: ProcessGrid) -> list[bytes]:
    """One piece per new rank: what it will hold of mine."""
    total = len(mine) * old.size  # all hold the same number
    low, share = len(mine) * rank, total // new.size
    return [
        mine[max(0, share * r - low) : max(0, share * (r + 1) - low)].tobytes()
        for r in range(new.size)
    ]


def unpack(pieces: Sequence[bytes], _old: ProcessGrid, _rank: int, _new: ProcessGrid) -> Cells:
    """The pieces, which come in the order of the cells."""
    return np.frombuffer(b"".join(pieces)).copy()


def sweep(comm: MPI.Comm, u: Cells, work: int, compute: Any) -> Cells:
    """``work`` time steps; the ghosts and a norm are all that travels."""
    ghosts = np.empty(work)
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    comm.Sendrecv(u[-work:].copy(), right, recvbuf=ghosts, source=left)
    with compute():
        u = np.concatenate([ghosts, u])
        for _ in range(work):
            u = u[1:] - COURANT * (u[1:] - u[:-1])
        norm = np.array([np.abs(u).max()])
    comm.Allreduce(MPI.IN_PLACE, norm, MPI.MAX)  # solvers look whether they have converged
    return u


def main(cells: int, work: int, most: int, ask: bool, sweeps: list[int]) -> None:
    """One phase after the other."""
    starts = dict(zip(accumulate(sweeps, initial=0), range(len(sweeps)), strict=False))
    with resize_lib.session() as rs:
        share = cells // rs.size
        first = np.arange(share) + share * rs.rank
        u = rs.parcel("u", np.sin(2 * np.pi * first / cells), pack, unpack)
        began = rs.value("began", 0.0)

        def close(phase: int) -> None:
            """Tell of a phase that is over, and begin the next."""
            now = rs.comm.bcast(time.perf_counter())  # by rank 0's clock, which stays
            if rs.rank == 0 and phase >= 0:
                found = {"phase": phase, "cells": cells << phase, "ranks": rs.size}
                print(json.dumps({**found, "lasted_s": now - began.value}), flush=True)
            began.value = now

        for step in rs.iterations(sum(sweeps)):
            if step in starts:
                phase = starts[step]
                close(phase - 1)
                if phase:
                    u.value = np.repeat(u.value, 2)
                if ask and cells << phase > most * rs.size:
                    rs.request(rs.size)
            u.value = sweep(rs.comm, u.value, work, rs.compute)
        close(len(sweeps) - 1)
        squares = rs.comm.allreduce(float((u.value**2).sum()))
        if rs.rank == 0:
            print(json.dumps({"result": squares}), flush=True)


if __name__ == "__main__":
    first, each, limit, asks, *counts = [int(word) for word in sys.argv[1:]]
    main(first, each, limit, bool(asks), counts)
