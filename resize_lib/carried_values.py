"""Plain variables that are other ones in ranks that join: the resize is given up, with the line.

`count += 1`, `u, v = v, u`, `self.t += dt`: a rank that joins has made no turn, so such a variable
is there what it was before the first one, and the job would go on with a wrong result; likewise
with `chunk = n // rs.size` from before the loop. The source says which variables those are (`dq
check` finds them, too); one that turns depend on, and is equal on all ranks of the job and another
one in the ranks that join, belongs to the job's state and was not declared. What differs from rank
to rank is each rank's own affair; times, and what is only counted or printed, are nobody's.

    new ranks    read their source while the job computes, then say what they have where the job is
    old ranks    compare with what the same function of theirs has

A job that has no such variables compares nothing and sends nothing more.
"""

from __future__ import annotations

import hashlib
import json
import linecache
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import numpy as np
from mpi4py import MPI

from dq_client.check import undeclared
from resize_lib.declared.base import Declared
from resize_lib.mistakes import is_program, short_path
from resize_lib.same_values import same
from resize_lib.server_link import say
from resize_lib.waiting import idle_bcast, wait_all
from resize_lib.watch import ACTION_VARIABLE

NOTES_VARIABLE = "DQ_NOTES"
NOTES_BYTES_MAX = 32 << 10  # a keeper takes lines of twice that
BYTES_MAX = 1 << 20  # of a value, pickled; of a larger array its digest is compared
SHOWN_MAX = 40
_LEFT = "left by one turn for the next"
_SAID = {
    "carried": (_LEFT, "declare it (rs.value, rs.keep), or compute it from the turn"),
    "swapped": (
        _LEFT,
        "swap the data, or choose by the turn: u, v = (a, b) if turn % 2 == 0 else (b, a)",
    ),
    "kept": ("kept over a resize", "ask for the size, and compute from it, in every turn"),
}
NOT_DATA = (ModuleType, FunctionType, type, MPI.Comm, MPI.Request, MPI.File, MPI.Win)


@dataclass(frozen=True, slots=True)
class Found:
    """What a rank that joins has in such a variable; `code`: of the function around it."""

    code: tuple[str, str, int]
    place: str
    line: str  # file:line where it is bound
    how: str  # it came about; a key of _SAID
    value: Any  # see `_comparable`
    shown: str


class Sources:
    """The variables that this program's files should have declared; each file is read once.

    Also by ranks that start later: a file takes 3 ms for 100 lines, so the keeper gives them what
    one has found (`notes`), by file: its version, and line, place and how of each variable.
    """

    def __init__(self) -> None:
        self._files: dict[str, list[tuple[int, str, str]]] = {}
        self._notes: dict[str, Any] = json.loads(os.environ.pop(NOTES_VARIABLE, "{}"))
        self._is_new = False  # something in them

    def read(self) -> str:
        """Those of the functions that run now. It may take a moment: nobody should wait for it.

        What is to be noted for ranks that start later; empty: nothing new.
        """
        for frame in _frames():
            self._of(frame)
        notes = json.dumps(self._notes) if self._is_new else ""
        return notes if len(notes) <= NOTES_BYTES_MAX else ""

    def found(self) -> list[Found]:
        """What the functions that run now have; called where the job is."""
        return [found for frame in _frames() for found in self._in(frame)]

    def _of(self, frame: FrameType) -> list[tuple[int, str, str]]:
        file = frame.f_code.co_filename
        if file not in self._files:
            version, noted = _version(file), self._notes.get(file)
            if noted is not None and noted[0] == version:
                self._files[file] = [(line, place, how) for line, place, how in noted[1]]
            else:
                source = "".join(linecache.getlines(file, frame.f_globals))
                self._files[file] = undeclared(source, file)
                if version:
                    self._notes[file], self._is_new = (version, self._files[file]), True
        return self._files[file]

    def _in(self, frame: FrameType) -> Iterator[Found]:
        code = frame.f_code
        lines = {line for _, _, line in code.co_lines()}
        for line, place, how in self._of(frame):
            value = _value(frame, place) if line in lines else None
            kept = _comparable(value)
            if kept is not None:
                where = f"{short_path(code.co_filename)}:{line}"
                yield Found(_key(code), place, where, how, kept, _shown(value))


def differing_variable(comm: MPI.Intracomm, root: int, found: list[Found] | None) -> str:
    """A variable that all old ranks have alike, and the ranks that join otherwise; empty: none.

    Collective. found: on rank `root`, which joins, what it has; None on all that do not join.
    """
    told: list[Found] = idle_bcast(comm, found, root)
    mine = [None] * len(told) if found is not None else [_here(each) for each in told]
    # A number for each that is the same on all old ranks, or is not; and whether it differs.
    bounds = np.zeros((3, len(told)), np.int64)
    if found is not None:
        bounds[:2], bounds[2] = np.iinfo(np.int64).min, -1
    else:
        for k, (value, theirs) in enumerate(zip(mine, told, strict=True)):
            kept = _comparable(value)
            if kept is not None and not _alike(kept, theirs.value):
                number = _number(kept)
                bounds[:, k] = number, -number, -1
    wait_all([comm.Iallreduce(MPI.IN_PLACE, bounds, MPI.MAX)])
    wrong = np.flatnonzero((bounds[0] == -bounds[1]) & (bounds[2] == -1))
    if not len(wrong):
        return ""
    first, value = told[int(wrong[0])], mine[int(wrong[0])]
    what, advice = _SAID[first.how]
    text = (
        f"{first.line}: {first.place} is {what}: it is {_shown(value)} in this job and"
        f" {first.shown} in ranks that join; {advice}"
    )
    if os.environ.get(ACTION_VARIABLE) != "warn":  # the owner's choice, the same on all ranks
        return text
    if comm.rank == 0:
        say(text)
    return ""


def _version(file: str) -> list[int]:
    """Of a file: another one if it has changed; empty if there is none."""
    try:
        status = Path(file).stat()
    except OSError:
        return []
    return [status.st_mtime_ns, status.st_size]


def _here(found: Found) -> Any:
    """What this rank has in the same place of the same function; None: nothing."""
    frame = next((frame for frame in _frames() if _key(frame.f_code) == found.code), None)
    return None if frame is None else _value(frame, found.place)


def _frames() -> Iterator[FrameType]:
    """The program's functions that run now, from the innermost outwards."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_program(frame.f_code.co_filename):
            yield frame
        frame = frame.f_back


def _key(code: CodeType) -> tuple[str, str, int]:
    return short_path(code.co_filename), code.co_name, code.co_firstlineno


def _value(frame: FrameType, place: str) -> Any:
    """None if there is nothing: a name that is not bound yet, an attribute that fails."""
    try:
        return eval(place, frame.f_globals, dict(frame.f_locals))  # noqa: S307 - its own source
    except Exception:  # a property may raise anything
        return None


def _comparable(value: Any) -> Any:
    """A value as it can be sent and compared; None if it cannot, or is no data."""
    if value is None or isinstance(value, NOT_DATA):
        return None
    if isinstance(value, Declared):
        return "declared", value.name
    if isinstance(value, np.ndarray) and value.nbytes > BYTES_MAX and not value.dtype.hasobject:
        digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).digest()
        return "array", value.shape, value.dtype.str, digest
    try:
        pickled = bytes(MPI.pickle.dumps(value))
    except Exception:  # any class may raise anything
        return None
    return ("value", pickled) if len(pickled) <= BYTES_MAX else None


def _alike(mine: Any, theirs: Any) -> bool:
    """Whether nothing can be wrong: equal, or arrays of other shapes, as buffers for parts have."""
    if mine == theirs:
        return True
    if "array" in (mine[0], theirs[0]):
        return bool(mine[0] != theirs[0] or mine[1] != theirs[1])
    if mine[0] != "value" or theirs[0] != "value":
        return False
    try:
        a, b = MPI.pickle.loads(mine[1]), MPI.pickle.loads(theirs[1])
        buffers = isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.shape != b.shape
        return buffers or same(a, b)
    except Exception:  # what cannot be compared counts as equal
        return True


def _number(kept: Any) -> int:
    """56 bits that are the same for equal ones."""
    return int.from_bytes(hashlib.sha256(repr(kept).encode()).digest()[:7], "little")


def _shown(value: Any) -> str:
    if isinstance(value, Declared):
        return f"the declared {value.name!r}"
    text = " ".join(repr(value).split())
    return text if len(text) <= SHOWN_MAX else f"{text[: SHOWN_MAX - 1]}…"
