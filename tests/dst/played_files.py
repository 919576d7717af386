"""The files of a journal, and the disk that they lie on: sectors that rot, that get lost, that were
on their way when the power went.

The files are real ones, in memory. What a disk has of them is known by images of them, taken when
all of them was on it.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

SECTOR = 512  # bytes; a disk writes each of them whole or not at all
ENDS = ("", "-wal", "-last")  # of the names of a journal's files
FAST = Path("/dev/shm")

Image = dict[str, bytes]


class Files:
    """A journal's files in a folder of their own."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.folder = Path(tempfile.mkdtemp(prefix="dq-dst-", dir=FAST if FAST.is_dir() else None))
        self.journal = self.folder / "journal.sqlite"

    def image(self) -> Image:
        """All of them, as whoever reads them now finds them."""
        paths = [(end, Path(f"{self.journal}{end}")) for end in ENDS]
        return {end: path.read_bytes() for end, path in paths if path.exists()}

    def put(self, image: Image) -> None:
        """Make them so. What SQLite keeps beside them belongs to a process, which has ended."""
        Path(f"{self.journal}-shm").unlink(missing_ok=True)
        for end in ENDS:
            path = Path(f"{self.journal}{end}")
            path.unlink(missing_ok=True)
            if end in image:
                path.write_bytes(image[end])
                path.chmod(0o600)

    def after_a_power_cut(self, known: Image, now: Image) -> Image:
        """What the disk has, which had all of `known`: of what came after, any of the sectors."""
        share = self.rng.choice([0.0, 0.5, 0.9, 1.0])
        found = {}
        for end in sorted(known.keys() | now.keys()):
            before, after = known.get(end, b""), now.get(end, b"")
            found[end] = self._mixed(before, after, share)
        return found

    def _mixed(self, before: bytes, after: bytes, share: float) -> bytes:
        """`share` of the sectors as they are after, the others as before; zeros for none."""
        size = max(len(before), len(after))
        if len(after) < len(before) and self.rng.random() < share:
            size = len(after)  # it was cut short
        mixed = bytearray(before.ljust(size, b"\0")[:size])
        arrived = 0
        for at in range(0, size, SECTOR):
            new = after[at : at + SECTOR]
            if new and new != before[at : at + SECTOR] and self.rng.random() < share:
                mixed[at : at + len(new)] = new
                arrived = at + len(new)
        # A file does not grow for a sector that never came.
        return bytes(mixed if size == len(before) else mixed[: max(len(before), arrived)])

    def rot(self, image: Image) -> str:
        """Flip one bit; where."""
        end = self.rng.choice([end for end in sorted(image) if image[end]])
        data = bytearray(image[end])
        at = self.rng.randrange(len(data))
        data[at] ^= 1 << self.rng.randrange(8)
        image[end] = bytes(data)
        return f"bit flipped in journal.sqlite{end}"

    def lose(self, image: Image, older: Image, ends: Sequence[str]) -> str:
        """A sector of these files, or a page, is what it was in an older image; which, if any."""
        width = self.rng.choice([SECTOR, 4096])
        places = [
            (end, at)
            for end in sorted(image.keys() & set(ends))
            for at in range(0, len(image[end]), width)
            if older.get(end, b"")[at : at + width] != image[end][at : at + width]
        ]
        if not places:
            return ""
        end, at = self.rng.choice(places)
        data, before = bytearray(image[end]), older.get(end, b"")
        size = min(width, len(data) - at)
        data[at : at + size] = before[at : at + size].ljust(size, b"\0")
        image[end] = bytes(data)
        return f"write lost in journal.sqlite{end}"

    def close(self) -> None:
        """Remove them."""
        shutil.rmtree(self.folder, ignore_errors=True)
