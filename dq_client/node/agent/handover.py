"""What ranks have written on a node that leaves: handed over to the server, which keeps it.

Only where the server does not read the same folder. Of each file the last FILE_BYTES are handed
over, of all together TOTAL_BYTES, those of the newest jobs first; what is left out is said in the
file. The server refuses what it does not know: output of jobs of another cluster.

One piece is under way at a time. An agent waits for this before it ends, but not for ever.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from dq_client.base import messages as m
from dq_client.base.home import Home
from dq_client.base.opened import open_output
from dq_client.node.ranks.marks import STREAMS, SUFFIX

log = logging.getLogger("dq.agent")

PIECE_BYTES = 256 << 10
FILE_BYTES = 16 << 20
TOTAL_BYTES = 256 << 20
AGAIN_S = 2.0  # a piece that was not acknowledged is sent again
ENDS_WITHIN_S = 20.0


class Handover:
    """`send`: how a request is sent; it returns the request's id."""

    def __init__(
        self, home: Home, node: str, send: Callable[[m.RequestBody], str], now: Callable[[], float]
    ) -> None:
        self._home, self._node, self._send, self._now = home, node, send, now
        self._pieces: Iterator[m.KeepLog] = iter(())
        self._piece: m.KeepLog | None = None
        self._request = ""
        self._sent_s = 0.0
        self._until_s: float | None = None  # it has begun
        self._skipped: tuple[int, str] | None = None  # (job, stream) that the server does not want
        self.refused = ""  # why, the last time

    @property
    def begun(self) -> bool:
        """Whether the node leaves."""
        return self._until_s is not None

    @property
    def under_way(self) -> bool:
        """Whether there is something left to hand over, and time for it."""
        return self._piece is not None

    def begin(self) -> None:
        """The node leaves."""
        if self._until_s is not None:
            return
        self._until_s = self._now() + ENDS_WITHIN_S
        if not self._home.server_file.exists():  # else the server reads the files themselves
            self._pieces = pieces(self._home, self._node)
            self._next()

    def look(self) -> None:
        """Send again what has got lost; give up when the time is over."""
        if self._piece is None or self._until_s is None:
            return
        if self._now() > self._until_s:
            log.warning("output of job %d and others was not handed over", self._piece.job)
            self._piece = None
        elif self._now() - self._sent_s > AGAIN_S:
            self._say(self._piece)

    def answered(self, message: m.Reply) -> None:
        """A reply to somebody; if it is to us, the next piece follows."""
        if self._piece is None or message.id != self._request:
            return
        if isinstance(message.body, m.Error):
            self.refused = message.body.text
            log.info("output of job %d is not kept: %s", self._piece.job, message.body.text)
            self._skipped = self._piece.job, self._piece.stream
        self._next()

    def _next(self) -> None:
        skipped = self._skipped
        self._piece = next((p for p in self._pieces if (p.job, p.stream) != skipped), None)
        if self._piece is not None:
            self._say(self._piece)

    def _say(self, piece: m.KeepLog) -> None:
        self._sent_s = self._now()
        self._request = self._send(piece)


def pieces(home: Home, node: str) -> Iterator[m.KeepLog]:
    """All that is handed over, in order; files are read as they are asked for."""
    jobs = home.job(0).parent
    numbers = sorted((int(d.name) for d in _entries(jobs) if d.name.isdecimal()), reverse=True)
    left = TOTAL_BYTES
    for job in numbers:
        for stream in STREAMS:
            path = home.job(job) / stream
            size = _size(path)
            if size:
                left -= min(size, FILE_BYTES)
                yield from _of_file(path, size, job, node, stream, everything=left >= 0)
            marks = path.with_name(stream + SUFFIX)
            known = _size(marks)
            if 0 < size <= FILE_BYTES and 0 < known <= min(left, FILE_BYTES):
                left -= known  # of a file whose beginning is missing they would be of other bytes
                yield from _of_file(marks, known, job, node, marks.name, everything=True)


def _of_file(
    path: Path, size: int, job: int, node: str, stream: str, *, everything: bool
) -> Iterator[m.KeepLog]:
    from_byte = max(0, size - FILE_BYTES) if everything else size
    text = ""
    if not everything:
        text = f"[dq: {size} bytes were not kept: node {node} left with too many]\n"
    elif from_byte:
        text = f"[dq: the first {from_byte} of {size} bytes were not kept: node {node} has left]\n"
    head, offset = text.encode(), 0
    try:
        with os.fdopen(open_output(path, os.O_RDONLY), "rb") as f:
            f.seek(from_byte)
            left = size - from_byte
            while True:
                data = head + f.read(min(left, PIECE_BYTES))
                left -= len(data) - len(head)
                last = left <= 0 or len(data) == len(head)
                yield m.KeepLog(
                    job=job, node=node, stream=stream, offset=offset, data=data, last=last
                )
                if last:
                    return
                offset, head = offset + len(data), b""
    except OSError as e:
        log.warning("%s is not handed over: %s", path, e)


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
