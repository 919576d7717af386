"""Mistakes of a program that would make its result wrong without a word: what is said of them.

docs/mistakes.md has them all, with what to change.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import traceback
from pathlib import Path
from types import FrameType
from typing import Any

# Not resolved: frames have names as they were imported by.
_OWN = tuple(
    str(Path(__file__).parent.parent.absolute() / name) + os.sep
    for name in ("resize_lib", "dq_client")
)
_STDLIB = str(Path(sysconfig.get_path("stdlib")).absolute()) + os.sep
# Of any environment: packages may come from several (PYTHONPATH, a system's, a user's own).
_INSTALLED = re.compile(r".*/(?:site|dist)-packages/[^/]+")
_applications: set[str] = set()  # those packages that are the application
WHY_CHARACTERS_MAX = 3900
COPIED = (
    "is a copy of the job's communicator, as MPI.Intracomm(MPI.COMM_WORLD) makes one, and does not"
    " follow the job: use MPI.COMM_WORLD or rs.comm itself"
)


class Mistake(RuntimeError):
    """The program does what cannot be right while ranks join and leave. Names the line."""


def caller(frame: FrameType | None = None) -> str:
    """`file:line` of the application's innermost frame, from `frame` outwards.

    frame: default the caller's.
    """
    at: FrameType | None = frame if frame is not None else sys._getframe(1)
    installed = ""  # in a package: shown only if nothing of the program itself is there
    while at is not None:
        name = at.f_code.co_filename
        if is_program(name):
            return f"{short_path(name)}:{at.f_lineno}"
        if not installed and not name.startswith((*_OWN, "<frozen")):
            installed = f"{short_path(name)}:{at.f_lineno}"
        at = at.f_back
    return installed or "?"


def is_program(path: str) -> bool:
    """Whether a source file is the application's, not a package's or Python's."""
    if _is_between(path):
        return False
    installed = _INSTALLED.match(path)
    return installed is None or installed[0] in _applications


def note_application() -> None:
    """Take an installed package that opens the session for the application.

    Called by the library's functions.
    """
    at: FrameType | None = sys._getframe(1)
    while at is not None and _is_between(at.f_code.co_filename):
        at = at.f_back
    installed = _INSTALLED.match(at.f_code.co_filename) if at is not None else None
    if installed is not None:
        _applications.add(installed[0])


def _is_between(path: str) -> bool:
    """Whether a file is this library's, or Python's own."""
    if path.startswith((*_OWN, "<frozen")):
        return True
    return path.startswith(_STDLIB) and _INSTALLED.match(path) is None


def short_path(path: str) -> str:
    """A path as people know it: relative where that is shorter and stays below."""
    try:
        near = os.path.relpath(path)
    except (OSError, ValueError):
        return path
    return path if near.startswith("..") or path == f"/{near}" else near


def described(error: BaseException, *, resized: bool) -> str:
    """One line for the job's owner: where in the program, what, and what may be the cause."""
    place = place_of(error)
    where = f"{place}: " if place else ""
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, Mistake):
        where = "" if where and text.startswith(where.rstrip(": ")) else where
    elif not isinstance(error, SystemExit):
        text = f"{_kind(error)}: {text}"
    return f"{where}{text}{_hint(error, resized=resized)}"[:WHY_CHARACTERS_MAX]


def place_of(error: BaseException) -> str:
    """`file:line` of the application's innermost line that the error came by; empty: none."""
    found = ""
    main = getattr(sys.modules.get("__main__"), "__file__", "")
    for frame in traceback.extract_tb(error.__traceback__):
        name = frame.filename
        # `python -c`, `python -`; in other programs, what dataclasses generate
        if name in ("<string>", "<stdin>") and main in ("", name):
            found = f"{name}:{frame.lineno}"
        if name.startswith("<") or name.endswith((".pyx", ".pxi")):  # of mpi4py, as it was built
            continue
        if is_program(str(Path(name).absolute())):
            found = f"{short_path(frame.filename)}:{frame.lineno}"
    return found


def _kind(error: BaseException) -> str:
    return "MPI.Exception" if _of_mpi(error) else type(error).__name__


def _of_mpi(error: BaseException) -> bool:
    """Whether MPI has raised it; a program that fails early may not have imported MPI."""
    module = sys.modules.get("mpi4py.MPI")
    return module is not None and isinstance(error, module.Exception)


def _of_communicator(error: BaseException) -> bool:
    """Whether MPI has raised it for a communicator that is none."""
    found: Any = error
    return _of_mpi(error) and found.Get_error_class() == sys.modules["mpi4py.MPI"].ERR_COMM


def _hint(error: BaseException, *, resized: bool) -> str:
    """What an error of numpy or MPI means in a job that may be resized."""
    if _of_mpi(error) and "MPI_Comm_spawn" in str(error):
        return " - the scheduler resizes this job: `dq why` says why it may not spawn ranks itself"
    if not resized:
        return f" - perhaps it {COPIED}" if _of_communicator(error) else ""
    if isinstance(error, ValueError) and "read-only" in str(error):
        return (
            " - is this a part (x.local) from before a resize? Its data have moved: fetch x.local"
            " again in every iteration"
        )
    if _of_communicator(error):
        return (
            " - is this a communicator from before a resize? Only rs.comm and MPI.COMM_WORLD may be"
            " kept: make what is derived from them in @rs.on_resize"
        )
    return ""
