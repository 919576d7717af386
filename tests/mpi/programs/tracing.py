"""Records the collective calls of a rank: (communicator, call, what it makes).

Imported before resize_lib. `MPI.Intracomm` is replaced by a class that records; a communicator is
its handle.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from mpi4py import MPI

Event: TypeAlias = tuple[int, str, int]  # handle, name of the call, handle of what it makes or 0

PLAIN = (
    *("Iallreduce", "Ibcast", "Ibarrier", "Iallgather", "Ialltoall", "allreduce", "allgather"),
    *("bcast", "barrier", "Barrier", "Allreduce", "Bcast", "Free", "Disconnect"),
)
MAKING = ("Dup", "Split", "Split_type", "Create_group", "Create_cart", "Connect", "Accept", "Merge")

# Kept in a module of MPI's: a program's own are compared with those of ranks that join.
_keeper: Any = MPI
_keeper._dq_events = None


def handle(comm: MPI.Comm) -> int:
    return int(MPI._handleof(comm))


def _noted(comm: MPI.Comm, name: str, made: MPI.Comm | None = None) -> None:
    if _keeper._dq_events is not None:
        _keeper._dq_events.append((handle(comm), name, handle(made) if made is not None else 0))


def _plain(before: Any, name: str) -> Callable[..., Any]:
    def call(self: Any, *arguments: Any, **options: Any) -> Any:
        _noted(self, name)
        return before(self, *arguments, **options)

    return call


def _making(before: Any, name: str) -> Callable[..., Any]:
    def call(self: Any, *arguments: Any, **options: Any) -> Any:
        made = before(self, *arguments, **options)
        if made == MPI.COMM_NULL:
            _noted(self, name)
            return made
        if isinstance(made, MPI.Intercomm):
            made = TracedInter(made)
        elif type(made) is not Traced:
            made = Traced(made)
        _noted(self, name, made)
        return made

    return call


class Traced(MPI.Intracomm):
    """An intracommunicator."""


class TracedInter(MPI.Intercomm):
    """An intercommunicator."""


MPI.Intracomm = Traced  # type: ignore[misc]

from resize_lib.job_comm import GridComm  # noqa: E402 - it may have been made before

for _class in (Traced, TracedInter, GridComm):
    if _class is GridComm and issubclass(GridComm, Traced):
        continue
    for _names, _wrap in ((PLAIN, _plain), (MAKING, _making)):
        for _name in _names:
            if hasattr(_class, _name):
                setattr(_class, _name, _wrap(getattr(_class, _name), _name))


@contextlib.contextmanager
def recorded(file: Path, what: dict[str, Any]) -> Iterator[None]:
    """Append what this rank calls meanwhile to a file, as one line."""
    events = _keeper._dq_events = []
    try:
        yield
    finally:
        _keeper._dq_events = None
        told = {**what, "events": events}
        told.pop("recording", None)
        with file.open("a") as out:
            out.write(json.dumps(told) + "\n")
