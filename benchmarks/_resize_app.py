"""The job of benchmarks/resize.py: it is grown and shrunk by the server, and says what that cost.

    python -m benchmarks._resize_app MEGABYTES FOLDER WAY

A turn is a fixed amount of Python work and an allreduce, so that ranks which start meanwhile and
take the processors away are noticed. Rank 0 appends one JSON line for each resize to
FOLDER/resizes, with the turns since the resize before; the file FOLDER/stop ends it.
"""

from __future__ import annotations

import importlib
import json
import math
import sys
import time
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np
from mpi4py import MPI

import resize_lib
from resize_lib.jobsession import Session

TOLD_TURNS = 4000  # of those before a resize
WORK = 40_000
SMALL = 64  # rows of the array of "0 MB": small, but real


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn as rank 0 saw it: when it began (time.time), the time since the turn before, and the
    work."""

    at_s: float
    gap_s: float
    work_s: float
    size: int


def work(rs: Session) -> None:
    """One turn of the application."""
    total = np.array([sum(range(WORK))], dtype=np.float64)
    rs.comm.Allreduce(MPI.IN_PLACE, total)


def side(megabytes: int) -> int:
    """Rows of a square matrix of float64 with so many MB."""
    return max(SMALL, math.isqrt(megabytes * 10**6 // 8))


def main() -> None:
    megabytes, folder = int(sys.argv[1]), Path(sys.argv[2])
    if sys.argv[3] == "scipy":
        importlib.import_module("scipy.sparse.linalg")
    with resize_lib.session() as rs:
        n = side(megabytes)
        a = rs.matrix("A", n, n, block=64, init=1.0)
        turns: list[Turn] = []
        ended_s = time.perf_counter()
        for _ in rs.iterations():
            began_s = time.perf_counter()
            at_s = time.time()
            work(rs)
            gap_s, work_s = began_s - ended_s, time.perf_counter() - began_s
            turns.append(Turn(at_s, gap_s, work_s, rs.size))
            if rs.rank == 0 and len(turns) > 1 and turns[-1].size != turns[-2].size:
                kept = [astuple(turn) for turn in turns[-TOLD_TURNS:]]
                told = {"turns": kept, "redistribution_s": rs._session.job.redistribution_s}
                with (folder / "resizes").open("a") as out:
                    out.write(json.dumps(told) + "\n")
                turns = [turns[-1]]
            if rs.comm.bcast((folder / "stop").exists() if rs.rank == 0 else None):
                break
            ended_s = time.perf_counter()
        assert float(a.local.sum()) == a.local.size, "the matrix is not what it was"


if __name__ == "__main__":
    main()
