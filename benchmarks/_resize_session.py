"""One growth of a session for benchmarks/_resize_ranks.py: it waits for new ranks or goes on."""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import dataclass

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from benchmarks._resize_ranks import WARM_TURNS, work
from dq_client import messages as m
from resize_lib import resize
from resize_lib.jobsession import Session
from resize_lib.server_link import ServerLink


def side(megabytes: int) -> int:
    """Rows of a square matrix of float64 with so many MB."""
    return math.isqrt(megabytes * 10**6 // 8)


class OneGrowth(ServerLink):
    """In place of a server: after WARM_TURNS turns the job may double, once."""

    def __init__(self, host: str) -> None:
        self._host = host
        self.redistribution_s = 0.0

    def hello(self, processors: int) -> m.JobWelcome:
        rows, cols = sorted(MPI.Compute_dims(processors, 2))
        return m.JobWelcome(1, 1, 1, self._places(0, processors), rows, cols)

    def _places(self, first: int, count: int) -> list[m.Place]:
        return [m.Place(p, "node", self._host) for p in range(first, first + count)]

    def remap(self, point: m.RemapPoint) -> m.RemapAnswer:
        if point.step != WARM_TURNS:
            return m.RemapAnswer("continue", point.preparing)
        old, new = point.processors, 2 * point.processors
        rows, cols = sorted(MPI.Compute_dims(new, 2))
        return m.RemapAnswer("expand", 1, self._places(old, old), rows, cols)

    def tell(self, body: m.Committed | m.Aborted) -> None:
        assert isinstance(body, m.Committed), f"the job did not grow: {body.why}"
        self.redistribution_s = body.redistribution_time_s

    def farewell(self) -> None:
        """Nobody listens."""

    def close(self) -> None:
        """Nothing is open."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn as rank 0 saw it: the time since the turn before, then the work."""

    size: int
    gap_s: float
    work_s: float


def in_session(host: str, megabytes: int, *, wait: bool) -> dict[str, float]:
    """Grow once, waiting for the new ranks or computing on; returns rank 0's account.

    in_calls_s: time at remap points, beyond what those cost that change nothing. lost_s: all time
    from the grant to the end of the growth that is not the undisturbed time of the turns done.
    """
    start_cpu_s = time.process_time()
    resize.PATIENT_FROM_S = 0.0 if wait else math.inf
    turns: list[Turn] = []
    link = OneGrowth(host)
    with Session(connect=lambda: link) as rs:
        n = side(megabytes)
        A = rs.matrix("A", n, n, block=64, init=1.0) if n else None  # 0 MB: nothing to move
        starting = rs.value("starting size", rs.size)
        ended = time.perf_counter()
        for _ in rs.iterations():
            began = time.perf_counter()
            work(rs.comm)
            turns.append(Turn(rs.size, began - ended, time.perf_counter() - began))
            if rs.size > starting.value:
                break
            ended = time.perf_counter()
        starts = rs.comm.allreduce(start_cpu_s if rs.spawned else 0.0)
        fresh_s, warm_s = copying_s(rs, A.local) if A is not None else (0.0, 0.0)
        if rs.rank > 0:
            return {}
    return {
        **account(turns),
        "redistribution_s": link.redistribution_s,
        "start_cpu_s": starts,
        "copy_fresh_s": fresh_s,
        "copy_warm_s": warm_s,
    }


def account(turns: list[Turn]) -> dict[str, float]:
    """Where the time of a growth went; the last turn is the first of the larger job."""
    calm = turns[WARM_TURNS // 2 : WARM_TURNS]
    gap_s = statistics.median(t.gap_s for t in calm)
    work_s = statistics.median(t.work_s for t in calm)
    during = turns[WARM_TURNS:-1]  # empty if the job waits
    gaps = [t.gap_s for t in turns[WARM_TURNS:]]
    working_s = sum(t.work_s for t in during)
    return {
        "in_calls_s": sum(gaps) - gap_s * len(gaps),
        "lost_s": sum(gaps) + working_s - gap_s * len(gaps) - work_s * len(during),
        "begin_s": gaps[0],
        "start_to_ready_s": sum(gaps[:-1]) + working_s,
        "take_in_s": gaps[-1],
        "turns": float(len(during)),
    }


def copying_s(rs: Session, part: NDArray[np.float64]) -> tuple[float, float]:
    """The slowest rank's time to copy its share, into fresh memory and then again."""
    copy = np.empty_like(part)
    took = []
    for _ in range(2):
        rs.comm.Barrier()
        began = time.perf_counter()
        np.copyto(copy, part)
        took.append(rs.comm.allreduce(time.perf_counter() - began, MPI.MAX))
    return took[0], took[1]
