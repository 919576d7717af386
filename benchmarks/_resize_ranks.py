"""The ranks of benchmarks/resize.py: one growth from n to 2n ranks, timed.

    mpiexec -n N python -m benchmarks._resize_ranks METHOD HOST MEGABYTES FOLDER

Rank 0 prints one JSON object: seconds by name. A turn of the application is a fixed amount of
Python work and an allreduce, so that ranks which start meanwhile and take the processors away are
noticed.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from mpi4py import MPI

from dq_client import messages as m
from resize_lib import resize
from resize_lib.jobsession import Session
from resize_lib.server_link import ServerLink

WARM_TURNS = 30
WORK = 40_000
PLAIN_SPAWNED = "plain-spawned"


def work(comm: MPI.Intracomm) -> None:
    """One turn of the application."""
    total = np.array([sum(range(WORK))], dtype=np.float64)
    comm.Allreduce(MPI.IN_PLACE, total)


def side(megabytes: int) -> int:
    """Rows of a square matrix of float64 with so many MB."""
    return math.isqrt(megabytes * 10**6 // 8)


# --- MPI_Comm_spawn and a merge: what any program could do ------------------------------------


def plain_spawn(host: str) -> dict[str, float]:
    """By all ranks; the new ones import numpy, like any application."""
    comm = MPI.COMM_WORLD
    for _ in range(WARM_TURNS):
        work(comm)
    began = time.perf_counter()
    info = MPI.Info.Create({"hosts": f"{host}:{comm.size}"})
    command = ["-m", "benchmarks._resize_ranks", PLAIN_SPAWNED, host, "0", "-"]
    link = comm.Spawn(sys.executable, command, maxprocs=comm.size, info=info)
    merged = link.Merge(high=False)
    merged.Barrier()
    lost_s = time.perf_counter() - began
    link.Disconnect()
    merged.Disconnect()
    return {"lost_s": lost_s}


def plain_spawned() -> None:
    """The new rank's half."""
    link = MPI.Comm.Get_parent()
    merged = link.Merge(high=True)
    merged.Barrier()
    link.Disconnect()
    merged.Disconnect()


# --- a session ----------------------------------------------------------------------------------


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
        A = rs.matrix("A", n, n, block=64, init=1.0)
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
        fresh_s, warm_s = copying_s(rs, A.local)
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


def copying_s(rs: Session, part: np.ndarray) -> tuple[float, float]:
    """The slowest rank's time to copy its share, into fresh memory and then again."""
    copy = np.empty_like(part)
    took = []
    for _ in range(2):
        rs.comm.Barrier()
        began = time.perf_counter()
        np.copyto(copy, part)
        took.append(rs.comm.allreduce(time.perf_counter() - began, MPI.MAX))
    return took[0], took[1]


# --- stop, checkpoint to disk, restart ----------------------------------------------------------


def checkpoint(megabytes: int, folder: Path) -> dict[str, float]:
    """Write everything, safely. In contiguous slabs: the cheapest checkpoint there is."""
    comm = MPI.COMM_WORLD
    part = np.ones(megabytes * 10**6 // 8 // comm.size)
    for _ in range(WARM_TURNS):
        work(comm)
    began = time.monotonic()  # one clock for all processes of the machine
    path = folder / "checkpoint"
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as out:
        out.seek(comm.rank * part.nbytes)
        out.write(part.data)
        out.flush()
        written = time.monotonic()
        os.fsync(out.fileno())
    comm.Barrier()
    return {"began": began, "written": written, "safe": time.monotonic()}


def restart(megabytes: int, folder: Path) -> dict[str, float]:
    """In twice as many ranks: read the share, and be ready to go on."""
    comm = MPI.COMM_WORLD
    started = time.monotonic()
    part = np.empty(megabytes * 10**6 // 8 // comm.size)
    with (folder / "checkpoint").open("rb", buffering=0) as source:
        source.seek(comm.rank * part.nbytes)
        assert source.readinto(part.data) == part.nbytes, "the checkpoint is incomplete"
    comm.Barrier()
    return {"started": started, "read": time.monotonic()}


def main() -> None:
    method, host, size, folder = sys.argv[1:]
    megabytes = int(size)
    if method == PLAIN_SPAWNED:
        plain_spawned()
        return
    if method == "plain":
        result = plain_spawn(host)
    elif method == "checkpoint":
        result = checkpoint(megabytes, Path(folder))
    elif method == "restart":
        result = restart(megabytes, Path(folder))
    else:
        result = in_session(host, megabytes, wait=method == "expand")
    if result and (method in ("expand", "background") or MPI.COMM_WORLD.rank == 0):
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
