"""Which rank has written which bytes of a job's output: what `dq logs --label` reads.

Beside a job's `out` lies `out.ranks`, in DQ_HOME also where `out` is a link to a file that the user
has named. A record for each write: where it begins, its length, world and number of the rank. Where
it begins the kernel says after the write (with O_APPEND a descriptor stands behind what it has just
written), so that keepers need no lock between them. Records are in the order in which they were
noted, which with several keepers is not quite that of the bytes.

Bytes without a record are shown without a label: those that a disk had no room to note, and those
that somebody else has written.
"""

from __future__ import annotations

import heapq
import os
import struct
from typing import Optional, Tuple

from ...base import opened

SUFFIX = ".ranks"
STREAMS = ("out", "err")
FILES = (*STREAMS, *(stream + SUFFIX for stream in STREAMS))  # of a job, as LogsQuery names them
RECORD = struct.Struct("<QIqI")  # first byte, length, world (of any sign), number of the rank
LINE_ENDS = (b"\n", b"\r")

Who = Tuple[int, int]  # world and number there


def label_of(who: Who) -> str:
    """What stands before a line: `[3] `; `[1.3] ` in the first world that joined."""
    world, number = who
    return f"[{world}.{number}] " if world else f"[{number}] "


class Marks:
    """The file of records, on the side that writes."""

    def __init__(self, path: str) -> None:
        self._path, self._fd = path, -1
        self._end = 0  # of what was noted last

    def note(self, first: int, length: int, who: Who) -> None:
        """These bytes are a rank's. A disk that has no room costs the label."""
        try:
            if self._fd < 0:
                self._fd = opened.open_log(self._path)
            if first < self._end:  # somebody has cut the output: old records are of other bytes
                os.ftruncate(self._fd, 0)
            record = RECORD.pack(first, length, *who)
            written = os.write(self._fd, record)
            if written < len(record):
                os.ftruncate(self._fd, os.fstat(self._fd).st_size - written)
        except (OSError, struct.error):  # whatever it is: it must not cost the ranks their keeper
            return
        self._end = first + length

    def close(self) -> None:
        """Nothing more comes."""
        if self._fd >= 0:
            os.close(self._fd)


class Labelled:
    """Puts labels into an output that is read piece by piece, from its beginning."""

    def __init__(self) -> None:
        self._records: list[tuple[int, int, Who]] = []  # a heap: first byte, length
        self._part = b""  # of a record
        self._at = 0  # what was shown
        self._line: Optional[Who] = None  # whose line is not at its end
        self._fresh = True  # the line is at its end
        self.seen = 0  # records

    def learn(self, data: bytes) -> None:
        """More of the records."""
        data = self._part + data
        whole = len(data) - len(data) % RECORD.size
        self._part = data[whole:]
        for first, length, world, number in RECORD.iter_unpack(data[:whole]):
            heapq.heappush(self._records, (first, length, (world, number)))
            self.seen += 1

    def show(self, data: bytes) -> bytes:
        """The next bytes, with labels."""
        parts = []
        while data:
            who, length = self._next(len(data))
            parts.append(self._lines(data[:length], who))
            data = data[length:]
            self._at += length
        return b"".join(parts)

    def _next(self, most: int) -> Tuple[Optional[Who], int]:
        """Who has written the next bytes, and how many of them."""
        while self._records:
            first, count, who = self._records[0]
            if first + count <= self._at:
                heapq.heappop(self._records)
            elif first > self._at:
                return None, min(most, first - self._at)
            else:
                return who, min(most, first + count - self._at)
        return None, most

    def _lines(self, data: bytes, who: Optional[Who]) -> bytes:
        label = label_of(who).encode() if who is not None else b""
        before = b""
        if not self._fresh and who != self._line:
            before, self._fresh = b"\n", True  # else its label would stand in the middle of a line
        lines = data.splitlines(keepends=True)
        goes_on = b"" if self._fresh else label
        shown = before + b"".join(label + line for line in lines)[len(goes_on) :]
        self._fresh, self._line = data.endswith(LINE_ENDS), who
        return shown
