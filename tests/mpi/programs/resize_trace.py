"""A session resized by script whose ranks write down each collective call of its resizes.

    python resize_trace.py FOLDER WHICH HOST...

FOLDER/PID gets a line for each remap point that led to a resize. WHICH: right, or what goes wrong.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import resize_lib
from resize_lib import resize
from resize_lib.processes import SpawnError
from resize_lib.processes.own import OwnBackend
from resize_lib.redistribution.arrays import DistributedArrays
from resize_lib.redistribution.segments import Segments
from resize_lib.remap_point import RemapPoints
from resize_lib.resize import Step
from resize_lib.runtime import Runtime
from resize_lib.world import bare
from tests.mpi.programs import tracing
from tests.mpi.programs.session_script import Script, ScriptedLink, scripted

FOLDER = Path(sys.argv[1])


def watch_resizes() -> None:
    """Record the remap points that resize the job, and how ranks join it."""
    follow, start, arrive = RemapPoints.follow, OwnBackend.start, Runtime.has_arrived
    joins: dict[str, Any] = {}
    file = FOLDER / str(os.getpid())

    def followed(self: Any, told: Any, iterations: int) -> bool:
        if told.step in (Step.CONTINUE, Step.BEGIN, Step.GIVE_UP):
            return follow(self, told, iterations)
        session = self._session
        what = {
            "role": "old", "rank": session.rank, "size": session.size, "step": told.step.name,
            "id": told.answer.resize_id or (session.job.expanding or told.answer).resize_id,
            "known": known(session),
        }  # fmt: skip
        with tracing.recorded(file, what):
            return follow(self, told, iterations)

    def close() -> None:
        if "recording" in joins:  # of a rank that joins and leaves again
            joins.pop("recording").__exit__(None, None, None)

    def started(self: Any, reserve: Any) -> Any:
        if self.spawned:
            world = {"world": tracing.handle(bare())}
            joins.update(role="new", recording=tracing.recorded(file, joins), known=world)
            joins["recording"].__enter__()
            atexit.register(close)
        return start(self, reserve)

    def arrived(self: Any) -> None:
        grid, job = self.grid, self.job
        joins.update(rank=grid.rank, size=grid.size, id=job.resize_id)
        close()
        arrive(self)

    RemapPoints.follow = followed  # type: ignore[method-assign]
    setattr(OwnBackend, "start", started)  # noqa: B010
    Runtime.has_arrived = arrived  # type: ignore[method-assign]


def known(session: Any) -> dict[str, int]:
    """The communicators that have a name before the resize."""
    grid = session.grid
    names = {"job": grid.comm, "own": grid.own_comm, "row": grid.row_comm, "col": grid.col_comm}
    return {name: tracing.handle(comm) for name, comm in names.items()}


def story(which: str, hosts: Sequence[str]) -> Script:
    """Every kind of resize, or the one where something goes wrong."""
    kind = which.split(":")[0]
    script = Script(4 if kind in ("shrink", "regrid") else 2, hosts)
    if kind == "shrink":
        script.shrink([0, 2], 1, 2, works=False)
    elif kind == "regrid":
        script.regrid(1, 4, works=False)
    else:
        script.expand(script.free[:2], 2, 2, works=kind == "right")
    if kind == "right":
        script.regrid(1, 4)
        script.shrink([0, 2], 1, 2)  # rank 0 leaves
        script.expand(script.free[:1], 1, 3)
    return script


WHICH = sys.argv[2]


def pack(value: bytes, _old: Any, rank: int, new: Any) -> list[bytes]:
    if WHICH.endswith("pack") and not WHICH.endswith("unpack") and rank == 1:
        raise MemoryError("no memory")
    return [value] * new.size


def unpack(pieces: Sequence[bytes], _old: Any, rank: int, new: Any) -> bytes:
    if WHICH.endswith("unpack") and rank == new.size - 1:
        raise MemoryError("no memory")
    return bytes(pieces[0])


def refuse(*_: Any, **__: Any) -> None:
    raise SpawnError("refused by the test")


def no_memory(*_: Any, **__: Any) -> None:
    raise MemoryError("no memory")


def break_something(rank: int) -> None:
    """What goes wrong where the program does nothing wrong, on one rank."""
    if WHICH == "refused":
        setattr(OwnBackend, "begin_expand", refuse)  # noqa: B010
    if rank == 1 and WHICH == "no room":
        setattr(Segments, "make_room", no_memory)  # noqa: B010
    if rank == 1 and WHICH == "copy":
        setattr(DistributedArrays, "copy_staying", no_memory)  # noqa: B010


def main() -> None:
    script = story(WHICH, sys.argv[3:])
    watch_resizes()
    resize.PATIENT_FROM_S = 0.0
    link = lambda: ScriptedLink(script)  # noqa: E731
    with resize_lib.session(connect=link, report_interval_s=0) as rs:
        break_something(-1 if rs._session.arriving else rs.rank)
        x = rs.matrix("x", 40, 40, block=4, init=lambda i, j: i + j)
        rs.parcel("p", b"what it holds", pack, unpack)
        count = rs.value("count", 0)
        total, own = np.zeros(3), np.zeros(3)
        lock = None
        if WHICH == "cannot join" and rs._session.arriving:
            raise ValueError("this rank cannot join")
        for _ in rs.iterations():
            count.value += 1
            total += 1
            if WHICH == "shrink: lost sum":
                own += rs.rank + 0.5
            if WHICH == "variables":
                lock = threading.Lock()
            assert x.local.shape == (len(x.rows), len(x.cols))
            if rs.comm.bcast(rs.rank == 0 and scripted(rs).finished(rs._session.job.resize_id)):
                break
        print(json.dumps([own.sum(), lock is None, total[0]]))


if __name__ == "__main__":
    main()
