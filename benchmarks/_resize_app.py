"""The job of benchmarks/resize.py: it is grown and shrunk by the server, and says what that cost.

    python -m benchmarks._resize_app MEGABYTES FOLDER

A turn is a fixed amount of Python work and an allreduce, so that ranks which start meanwhile and
take the processors away are noticed. Rank 0 appends one JSON line for each resize to
FOLDER/resizes; the file FOLDER/stop ends it.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from mpi4py import MPI

import resize_lib
from resize_lib.jobsession import Session

CALM_TURNS = 15  # before a resize: what a turn costs undisturbed
WORK = 40_000
SMALL = 64  # rows of the array of "0 MB": small, but real


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn as rank 0 saw it: when it began, the time since the turn before, and the work."""

    began_s: float
    gap_s: float
    work_s: float
    size: int
    resizing: bool  # new ranks were on their way when it began


def work(rs: Session) -> None:
    """One turn of the application."""
    total = np.array([sum(range(WORK))], dtype=np.float64)
    rs.comm.Allreduce(MPI.IN_PLACE, total)


def side(megabytes: int) -> int:
    """Rows of a square matrix of float64 with so many MB."""
    return max(SMALL, math.isqrt(megabytes * 10**6 // 8))


def account(turns: list[Turn]) -> dict[str, float]:
    """What a resize cost; the last turn is the first at the new size.

    decided_s     from the answer to the first turn at the new size
    lost_s        all time since the answer that is not the calm time of turns done
    """
    last = turns[-1]
    first = len(turns) - 1
    while first > 1 and turns[first - 1].resizing:
        first -= 1
    calm = turns[max(0, first - CALM_TURNS) : first]
    gap_s = statistics.median(turn.gap_s for turn in calm)
    work_s = statistics.median(turn.work_s for turn in calm)
    answered_s = turns[first].began_s - turns[first].gap_s  # the remap point before that turn
    during = turns[first:-1]
    gaps_s = sum(t.gap_s - gap_s for t in turns[first:])
    lost_s = gaps_s + sum(t.work_s - work_s for t in during)
    return {
        "from": turns[first - 1].size,
        "to": last.size,
        "decided_s": last.began_s - answered_s,
        "lost_s": lost_s,
        "pause_s": last.gap_s - gap_s,
        "turns": len(during),
        "turn_s": work_s + gap_s,
    }


def main() -> None:
    megabytes, folder = int(sys.argv[1]), Path(sys.argv[2])
    with resize_lib.session() as rs:
        n = side(megabytes)
        a = rs.matrix("A", n, n, block=64, init=1.0)
        turns: list[Turn] = []
        ended_s = time.perf_counter()
        for _ in rs.iterations():
            began_s = time.perf_counter()
            resizing = rs.job.expanding is not None
            work(rs)
            gap_s, work_s = began_s - ended_s, time.perf_counter() - began_s
            turns.append(Turn(began_s, gap_s, work_s, rs.size, resizing))
            if rs.rank == 0 and len(turns) > 1 and turns[-1].size != turns[-2].size:
                found = account(turns)
                found["redistribution_s"] = rs.job.redistribution_s
                with (folder / "resizes").open("a") as out:
                    out.write(json.dumps(found) + "\n")
                turns = [turns[-1]]
            if rs.comm.bcast((folder / "stop").exists() if rs.rank == 0 else None):
                break
            ended_s = time.perf_counter()
        assert float(a.local.sum()) == a.local.size, "the matrix is not what it was"


if __name__ == "__main__":
    main()
