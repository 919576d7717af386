"""How far a program is, from what it writes."""

from __future__ import annotations

import os
import re
from pathlib import Path

LINE_BYTES_MAX = 1 << 20  # a line that never ends is cut there


class Lines:
    """Cuts bytes as they come into lines; \r ends one, too."""

    def __init__(self) -> None:
        self._rest = b""

    def of(self, data: bytes) -> list[str]:
        """The lines that are complete now."""
        *whole, rest = (self._rest + data.replace(b"\r", b"\n")).split(b"\n")
        self._rest = rest[-LINE_BYTES_MAX:]
        return [line.decode(errors="replace") for line in whole]


class Counter:
    """The number in the last line that fits, or how many lines did.

    first, last  the first and the latest count of this start of the program; None: none yet
    """

    def __init__(self, pattern: str, *, counts: bool) -> None:
        self._pattern, self._counts = re.compile(pattern), counts
        self.first: int | None = None
        self.last: int | None = None

    def take(self, line: str) -> bool:
        """Whether the line is progress."""
        match = self._pattern.search(line)
        if match is None:
            return False
        if self._counts:
            value = (self.last or 0) + 1
        else:
            try:
                value = int(float(match[1]))
            except (ValueError, OverflowError):
                return False
        if self.first is None:
            self.first = value
        moved = self.last is None or value > self.last
        self.last = value
        return moved


class Tail:
    """What is appended to a file from now on; the file may come into being, be cut or replaced."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: tuple[int, int] | None = None
        self._at = 0
        found = self._look()
        if found is not None:
            self._file, self._at = found[:2], found[2]

    def _look(self) -> tuple[int, int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino, found.st_size

    def read(self) -> bytes:
        """What is new."""
        found = self._look()
        if found is None:
            self._file = None  # its number may be that of the next one
            return b""
        if self._file != found[:2]:
            self._file, self._at = found[:2], 0
        self._at = min(self._at, found[2])  # cut: what a program goes on with stands there
        if self._at == found[2]:
            return b""
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK)  # a FIFO would wait
            try:
                data = os.pread(fd, LINE_BYTES_MAX, self._at)
            finally:
                os.close(fd)
        except OSError:
            return b""
        self._at += len(data)
        return data
