"""Proven checkpoints of a program: a copy of the newest one, and what the next start has to know.

The copy is DQ's own, because the program may write over its file, also in a start that fails. It is
in a folder of the job beside the program's files: what the program needs to go on every node can
see. Two places take turns, so a copy that is being made never costs the last one.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

Stamp = tuple[int, int, int]  # newest change in ns, bytes, files


def stamp_of(path: Path) -> Stamp | None:
    """What changes when a checkpoint is written; None: there is none, or an empty one."""
    newest = size = count = 0
    try:
        files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
        for file in files:
            found = file.stat()
            newest, size, count = max(newest, found.st_mtime_ns), size + found.st_size, count + 1
    except OSError:
        return None  # being written
    return (newest, size, count) if size else None


@dataclass(slots=True)
class Proven:
    """The newest proven checkpoint. `place`: the copy's, in the job's folder or, if another job
    has made it, absolute; empty: there is none yet.

    step         iterations that are done in it, as the program counts them
    unstoppable  why no resize is tried any more: the program did not stop as the recipe says
    """

    identity: str = ""
    place: str = ""
    step: int = 0
    unstoppable: str = ""


class Checkpoints:
    """Of one job.

    identity  what no other job in this folder has had
    source    the folder of another job, whose newest checkpoint this one begins with
    """

    def __init__(self, cwd: Path, job: int, identity: str, source: Path | None = None) -> None:
        self.folder = cwd / f".dq-recipe-{job}"
        self._identity = identity
        found = _read(self.folder)
        if found is None or found.identity != identity:
            # Of a job of an earlier cluster with the same number: not ours to go on from.
            found = Proven(identity)
        other = _read(source) if source is not None and not found.place else None
        if source is not None and other is not None and other.place:
            found = Proven(identity, str(source / other.place), other.step, found.unstoppable)
        self.proven = found

    def prove(self, path: Path, step: int, without: Sequence[str] = ()) -> tuple[float, int]:
        """Keep a copy of a complete checkpoint, but for files of these names in a folder; returns
        how long that took, and its bytes.

        Raises:
            OSError: it could not be copied, or changed meanwhile; the last copy stays.
        """
        began_s, before = time.monotonic(), stamp_of(path)
        place = "b" if self.proven.place == "a" else "a"
        self.folder.mkdir(mode=0o700, exist_ok=True)
        copy = self.folder / place
        _remove(copy)
        _copy(path, copy, without)
        if before is None or stamp_of(path) != before:
            raise OSError(f"{path} changed while it was copied")
        self._note(Proven(self._identity, place, step, self.proven.unstoppable))
        return time.monotonic() - began_s, before[1]

    def give_up_resizing(self, why: str) -> None:
        """Remember that the program does not stop as its recipe says."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self._note(Proven(self._identity, self.proven.place, self.proven.step, why))

    def restore(self, path: Path) -> None:
        """Put the copy where the program reads it. OSError if that fails."""
        _remove(path)
        _copy(self.folder / self.proven.place, path)

    def clear(self) -> None:
        """The job is done."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _note(self, proven: Proven) -> None:
        file = self.folder / "proven.json"
        new = file.with_suffix(".new")
        with new.open("w") as f:
            json.dump(asdict(proven), f)
            f.flush()
            os.fsync(f.fileno())
        new.replace(file)
        self.proven = proven


def _read(folder: Path) -> Proven | None:
    """What a job has noted; None: nothing that can be read."""
    try:
        return Proven(**json.loads((folder / "proven.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _copy(source: Path, target: Path, without: Sequence[str] = ()) -> None:
    if source.is_dir():
        left_out = shutil.ignore_patterns(*without)
        shutil.copytree(source, target, symlinks=True, ignore=left_out)
    else:
        shutil.copy2(source, target)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
