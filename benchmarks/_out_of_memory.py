"""A control group in which a process is killed because memory runs out (needs root).

The kernel's own killer, and not a signal that looks like it: the process gets no word, and dies in
the middle of touching a page.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

LIMIT_BYTES = 8 << 20  # what a process had before it joined does not count
ROOT = Path("/sys/fs/cgroup")


def make() -> Path | None:
    """A new group; None where none can be made."""
    for base, limits in (
        (ROOT / "memory", ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")),
        (ROOT, ("memory.max",)),
    ):
        folder = base / f"dq-losses-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            (folder / limits[0]).write_text(str(LIMIT_BYTES))
        except OSError:
            folder.rmdir()
            continue
        for name, value in ((limits[-1], str(LIMIT_BYTES)), ("memory.swap.max", "0")):
            with suppress(OSError):  # a machine without swap has no file for it
                (folder / name).write_text(value)
        return folder
    return None


def die_in(folder: Path) -> None:
    """Run out of memory there; RuntimeError if this process survives it."""
    (folder / "cgroup.procs").write_text(str(os.getpid()))
    bytearray(8 * LIMIT_BYTES)
    raise RuntimeError(f"{folder} has not ended this process")
