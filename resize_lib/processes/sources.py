"""Whether the program's files are still those that this rank has loaded.

Ranks that join load the program when they start. If a file was edited meanwhile, they would be
another program than the ranks that are there: one calls a collective operation that the other does
not, and all wait for ever, or data are read as what they are not. Such an expansion is refused.

What counts are the Python files of the modules that this rank has loaded, its main program too.
Installed packages do not, nor DQ's own, which starters keep loaded: they are not looked at.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from hashlib import blake2b
from itertools import takewhile
from pathlib import Path

from dq_client.base import imports
from resize_lib.processes.interface import SpawnError

OF_DQ = frozenset({"dq_client", "resize_lib"})
STANDARD_LIBRARY = str(Path(os.__file__).parent) + os.sep


@dataclass(frozen=True, slots=True)
class Version:
    """What a file held at one time; the digest counts, the rest saves reading it again."""

    modified_ns: int
    size: int
    digest: bytes


_loaded: dict[str, Version] = {}


def remember_preloaded() -> None:
    """Once, in a process that ranks are forked from: what is loaded now they need not look at.

    In a fork merely looking at 600 modules takes 2 ms: their reference counts are written, so each
    page is copied.
    """
    remember_sources()
    imports.mark()


def remember_sources() -> None:
    """Note what the files of the modules loaded by now hold, those that are not known yet.

    Call it when the program has imported what it needs. Half a millisecond, and 0.05 for each file.
    """
    for path in _own_files() - _loaded.keys():
        found = _version(path)
        if found is not None:
            _loaded[path] = found


def check_sources() -> None:
    """Refuse to start ranks (SpawnError) of a program that has changed since it was loaded."""
    for path, before in _loaded.items():
        now = _version(path, before)
        if now is None:
            raise SpawnError(
                f"{path} is gone, and this job has loaded it: put it back, or submit the job again"
            )
        if now.digest != before.digest:
            at = time.strftime("%H:%M:%S", time.localtime(now.modified_ns / 1e9))
            raise SpawnError(
                f"{path} was changed at {at}, after this job had loaded it: new ranks would run"
                " another program than the others; undo the change, or submit the job again"
            )
        _loaded[path] = now
    remember_sources()


def _own_files() -> set[str]:
    found: set[str] = set()
    newest_first = list(reversed(sys.modules))
    for name in ["__main__", *takewhile(lambda name: name != imports.MARKER, newest_first)]:
        if name.partition(".")[0] in OF_DQ:
            continue
        # vars: a module that loads itself when an attribute is asked for must not do so here.
        path = getattr(sys.modules.get(name), "__dict__", {}).get("__file__")
        if isinstance(path, str) and path.endswith(".py"):
            found.add(path)
    return {path for path in found if not _is_installed(path)}


def _is_installed(path: str) -> bool:
    return path.startswith(STANDARD_LIBRARY) or any(folder in path for folder in imports.INSTALLED)


def _version(path: str, before: Version | None = None) -> Version | None:
    """What the file holds, `before` if its time and size are the same; None if there is none."""
    try:
        status = Path(path).stat()
        if before and (status.st_mtime_ns, status.st_size) == (before.modified_ns, before.size):
            return before
        digest = blake2b(Path(path).read_bytes(), digest_size=16).digest()
    except OSError:
        return None
    return Version(status.st_mtime_ns, status.st_size, digest)
