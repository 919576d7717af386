"""Result files: written whole or not at all, and never over what is no file of the user's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STREAMS = ("/dev", "/proc")  # what is there is no file of the user's


def part_of(path: Path) -> Path:
    """Where a result is written before it is whole and takes the name `path`."""
    return path.with_name(path.name + ".part")


def target_of(path: Path) -> Path | None:
    """The file that a result is to be, behind all links; None: it is written straight into `path`.

    That is a pipe, a device, or /dev/stdout, wherever it leads: nothing may replace these.
    """
    target = path.resolve()
    places = (path.absolute(), target)
    streams = any(place.is_relative_to(top) for place in places for top in STREAMS)
    kept = target.exists() and (streams or not target.is_file())
    return None if kept else target


def try_to_write(path: Path) -> None:
    """OSError unless a file can be made beside its target, where the result is written first."""
    target = target_of(path)
    if target is None:
        return
    probe = part_of(target)
    probe.touch()
    probe.unlink()


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Where to write a file, which takes the name `path` once the block has ended without fault."""
    part = part_of(path)
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
