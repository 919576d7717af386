"""Whole copies in a folder: each a folder of parts and a manifest, written last.

    FOLDER/INSTANCE.NUMBER/part-00003     what rank 3 had (partfile.py)
    FOLDER/INSTANCE.NUMBER/manifest       JSON: where the job was, grid, size and checksum of every
                                          part, and a checksum of the manifest itself

A copy without a manifest is none: its writers were interrupted. A manifest appears all at once and
only after all parts are there, so a copy with one is complete; whether it is still sound is found
out by its checksums. Two copies are kept. The older makes room before the next one is written, so
that a folder never holds more than two.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dq_client.base import private
from resize_lib.descriptors import DescriptorError, ProcessGrid
from resize_lib.loops import Position
from resize_lib.protection.partfile import checksum_of
from resize_lib.protection.state import ProtectionError

KEPT = 2
MANIFEST = "manifest"


@dataclass(frozen=True, slots=True)
class Copy:
    """A complete copy: `parts` are size and checksum of each rank's file."""

    folder: Path
    loops: Position  # where the job was
    grid: ProcessGrid
    parts: tuple[tuple[int, int], ...]
    lengths: tuple[float | None, ...] = ()  # iterations of each; () in copies of older versions

    def part(self, rank: int) -> Path:
        """The file of one rank."""
        return part_path(self.folder, rank)

    @property
    def nbytes(self) -> int:
        """Of all parts."""
        return sum(size for size, _ in self.parts)

    def check_part(self, rank: int) -> str:
        """What is wrong with a part; empty if it is sound."""
        path = self.part(rank)
        try:
            found = checksum_of(path)
        except OSError as e:
            return f"{path}: {e.strerror}"
        if found != self.parts[rank]:
            return f"{path}: damaged (its checksum is not the manifest's)"
        return ""


def position_of(loops: Any) -> Position:
    """As JSON has it. TypeError or ValueError for what is none."""
    return tuple((int(number), int(iteration)) for number, iteration in loops)


def name_of(instance: int, number: int) -> str:
    """Folder of the copy `number` that start `instance` of the job makes."""
    return f"{instance}.{number}"


def part_path(folder: Path, rank: int) -> Path:
    """The file of one rank in a copy's folder."""
    return folder / f"part-{rank:05}"


def write_manifest(copy: Copy, *, sync: bool) -> None:
    """Declare a copy complete. OSError if that is impossible."""
    grid = [copy.grid.rows, copy.grid.cols]
    place = {"loops": copy.loops, "lengths": copy.lengths}
    body = {"format": 2, **place, "grid": grid, "parts": [list(p) for p in copy.parts]}
    text = json.dumps({**body, "sum": _sum(body)})
    draft = copy.folder / f".{MANIFEST}.{os.getpid()}"
    try:
        with draft.open("w") as f:
            f.write(text)
            f.flush()
            if sync:
                os.fsync(f.fileno())
        if sync:
            _sync_folder(copy.folder)  # the parts' names
        draft.replace(copy.folder / MANIFEST)
        if sync:
            _sync_folder(copy.folder)
            _sync_folder(copy.folder.parent)
    finally:
        draft.unlink(missing_ok=True)


def read_copy(folder: Path) -> Copy:
    """The copy in a folder, its parts not looked at. ProtectionError if the manifest is damaged."""
    try:
        found = json.loads((folder / MANIFEST).read_text())
        claimed = found.pop("sum")
        if claimed != _sum(found):
            raise ProtectionError(f"{folder}: the manifest is damaged")
        parts = tuple((int(size), int(total)) for size, total in found["parts"])
        loops, lengths = position_of(found["loops"]), tuple(found["lengths"])
        copy = Copy(folder, loops, ProcessGrid(*found["grid"]), parts, lengths)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, DescriptorError) as e:
        raise ProtectionError(f"{folder}: the manifest is damaged: {e}") from e
    if len(parts) != copy.grid.size:
        raise ProtectionError(f"{folder}: {len(parts)} parts for a grid of {copy.grid.size}")
    return copy


def complete_copies(folder: Path) -> list[Path]:
    """Folders of the copies that were completed, newest first."""
    return [entry for entry in copies(folder) if (entry / MANIFEST).exists()]


def copies(folder: Path) -> list[Path]:
    """Folders of all copies, newest first."""
    try:
        found = [entry for entry in folder.iterdir() if order(entry.name)]
    except OSError:
        return []
    return sorted(found, key=lambda entry: order(entry.name), reverse=True)


def make_room(folder: Path, kept: int = KEPT - 1, coming: str = "") -> None:
    """Remove all but the newest `kept` complete copies, and what never became complete.

    `coming`: the copy that room is made for; other ranks may be writing it already.
    """
    keep = [*complete_copies(folder)[:kept], folder / coming]
    for entry in copies(folder):
        if entry not in keep:
            (entry / MANIFEST).unlink(missing_ok=True)  # first, so that it never counts half gone
            shutil.rmtree(entry, ignore_errors=True)


def check_private(folder: Path) -> None:
    """Refuse a folder that others can write, or a link."""
    try:
        private.check_own(folder, private.OTHERS_WRITE)
    except private.NotPrivate as e:
        raise ProtectionError(str(e)) from e


def order(name: str) -> tuple[int, ...]:
    """Sorts copies by age; empty for what is none."""
    words = name.split(".")
    return tuple(map(int, words)) if len(words) == 2 and all(w.isdecimal() for w in words) else ()


def _sum(body: dict[str, object]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
