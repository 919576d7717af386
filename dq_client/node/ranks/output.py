"""The output of ranks: whole lines, from many ranks into one file, none of them torn.

Ranks write into pipes, the keeper reads them and appends whole lines to the job's file with one
write each time (O_APPEND: the keepers of other nodes append to the same file). What has no line end
yet waits for it; a carriage return counts as one, because progress bars end their lines with it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections import deque
from dataclasses import dataclass
from typing import Deque, Optional

from ...base.opened import open_output
from .marks import SUFFIX, Marks, Who, label_of

PIECE_BYTES = 1 << 20
LINE_BYTES_MAX = 1 << 20  # a longer line is passed on in pieces
PIPE_BYTES = 1 << 20  # what a rank can write before it waits for the keeper
F_SETPIPE_SZ = 1031
KEPT_BYTES_MAX = 1 << 20  # of each file, while its disk fails
# What a disk recovers from; a path that is wrong stays wrong.
PASSING = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.ESTALE, errno.ENFILE)


@dataclass
class Piece:
    """What waits to be written; or, without data, how many bytes are missing here."""

    data: memoryview
    who: Optional[Who] = None
    missing: int = 0


def pipe() -> tuple[int, int]:
    """A pipe for one stream of one rank: what to read from, and what to write to."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    try:
        fcntl.fcntl(reading, F_SETPIPE_SZ, PIPE_BYTES)
    except OSError:
        pass  # the user's pipes are large already: the usual 64 KiB do as well
    return reading, writing


class File:
    """A job's output file. What a failing disk does not take waits in memory, up to KEPT_BYTES_MAX.

    Bytes beyond that are counted: a line in the file says how many are missing where. A file that
    cannot be made at first ends no job, either.
    """

    def __init__(self, path: str) -> None:
        self._path, self._fd = path, -1
        self._marks = Marks(path + SUFFIX)
        self._waiting: Deque[Piece] = deque()
        self.waiting_bytes = 0
        self.lost_bytes, self.lost_why = 0, ""  # for ever
        self.why = ""  # it cannot be written at present
        self._passes = True  # and whether that may pass
        self.flush()

    def write(self, data: bytes, who: Optional[Who] = None) -> None:
        """Append all of it, and note who has written it unless a label says so."""
        if not data:
            return
        fails = bool(self.why) and not self.flush()
        if fails and not (self._passes and self.waiting_bytes + len(data) <= KEPT_BYTES_MAX):
            self._drop(len(data))
            return
        self._waiting.append(Piece(memoryview(data), who))
        self.waiting_bytes += len(data)
        self.flush()

    def flush(self) -> bool:
        """Write what waits; whether nothing waits any more."""
        try:
            if self._fd < 0:
                self._fd = open_output(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            while self._waiting:
                self._write_first()
        except OSError as e:
            self.why, self._passes = e.strerror or str(e), e.errno in PASSING
            if not self._passes:
                self._drop_waiting()
            return False
        self.why = ""
        return True

    @property
    def is_whole(self) -> bool:
        """Whether all that came is written."""
        return not self._waiting and not self.lost_bytes

    def __str__(self) -> str:
        """The path, and why nothing can be written there."""
        return f"{self._path}: {self.why}"

    @property
    def may_pass(self) -> bool:
        """Whether what waits may still be written: the disk is full, not the path a wrong one."""
        return bool(self.waiting_bytes) and self._passes

    def give_up(self) -> None:
        """What waits is lost."""
        self._drop_waiting()
        self.why = ""

    def _lose(self, count: int) -> None:
        self.lost_bytes += count
        self.lost_why = str(self)

    def _write_first(self) -> None:
        piece = self._waiting[0]
        if piece.missing:
            os.write(self._fd, f"\ndq: {piece.missing} bytes are missing: {self.why}\n".encode())
            self._waiting.popleft()
            return
        written = os.write(self._fd, piece.data)
        if piece.who is not None:
            self._note(written, piece.who)
        piece.data = piece.data[written:]
        self.waiting_bytes -= written
        if not piece.data:
            self._waiting.popleft()

    def _drop_waiting(self) -> None:
        count, self.waiting_bytes = self.waiting_bytes, 0
        if count:
            missing = sum(piece.missing for piece in self._waiting)
            self._waiting.clear()
            self._drop(count)
            self._waiting[-1].missing += missing

    def _drop(self, count: int) -> None:
        self._lose(count)
        if not (self._waiting and self._waiting[-1].missing):
            self._waiting.append(Piece(memoryview(b"")))
        self._waiting[-1].missing += count

    def _note(self, written: int, who: Who) -> None:
        try:
            end = os.lseek(self._fd, 0, os.SEEK_CUR)
        except OSError:  # a pipe, say
            return
        if end >= written:  # /dev/null stays at 0
            self._marks.note(end - written, written, who)

    def close(self) -> None:
        """Nothing more comes."""
        self._marks.close()
        if self._fd >= 0:
            os.close(self._fd)


class Files:
    """All output files of one keeper, by folder and name."""

    def __init__(self) -> None:
        self._files: dict[tuple[str, str], File] = {}
        self._until_s = float("inf")

    def file(self, folder: str, name: str) -> File:
        """FOLDER/NAME, made when it is first asked for."""
        if (folder, name) not in self._files:
            self._files[folder, name] = File(os.path.join(folder, name))
        return self._files[folder, name]

    @property
    def waits(self) -> bool:
        """Whether something waits that a disk may still take."""
        return any(file.may_pass for file in self._files.values())

    def flush(self) -> bool:
        """Write what waits; whether no file waits any more."""
        tried = [file.flush() for file in self._files.values()]
        return all(tried)

    def write_last(self, patience_s: float) -> bool:
        """Called once nothing more comes, until it returns True: all is written, or given up.

        patience_s: since the first of these calls; what waits any longer is lost.
        """
        now = time.monotonic()
        if not self.flush() and self.waits:
            self._until_s = min(self._until_s, now + patience_s)
            if now < self._until_s:
                return False
        self._until_s = float("inf")
        for file in self._files.values():
            file.give_up()
        return True

    def state(self) -> dict[str, object]:
        """What the agent is told: why output waits, whether it still may be written, what is lost.

        What is being lost just now is said once that is over.
        """
        files = self._files.values()
        failing = [file for file in files if file.why and not file.is_whole]
        lost = [file for file in files if file.lost_bytes and not file.why]
        return {
            "unwritten": "; ".join(f"output cannot be written to {file}" for file in failing),
            "writing": self.waits,
            "lost_bytes": sum(file.lost_bytes for file in lost),
            "lost_why": lost[0].lost_why if lost else "",
        }

    @property
    def at_stake_bytes(self) -> int:
        """What is lost if the keeper is killed now, and what is lost already."""
        return sum(file.waiting_bytes + file.lost_bytes for file in self._files.values())


class Stream:
    """One stream of one rank on its way into a file. `label`: its label goes before each line."""

    def __init__(self, reading: int, file: File, who: Who, *, label: bool = False) -> None:
        self.reading, self._file = reading, file
        self._label = label_of(who).encode() if label else b""
        self._who = None if label else who
        self._rest = b""

    def fileno(self) -> int:
        """What the rank's output is read from."""
        return self.reading

    def pump(self) -> bool:
        """Pass on what is there, at most a piece; False at the end."""
        try:
            data = os.read(self.reading, PIECE_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        if not data:
            return False
        data = self._rest + data
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if not end and len(data) > LINE_BYTES_MAX:
            end = len(data)
        self._rest = data[end:]
        self._write(data[:end])
        return True

    def drain(self) -> None:
        """Pass on all that was written up to now, the unfinished line too."""
        while True:
            before = self._rest
            try:
                data = os.read(self.reading, PIECE_BYTES)
            except OSError:
                break
            if not data:
                break
            self._rest = before + data
            if len(self._rest) > LINE_BYTES_MAX:
                self._flush()
        self._flush()

    def close(self) -> None:
        """The rank has ended: pass on what is left."""
        self.drain()
        os.close(self.reading)

    def _flush(self) -> None:
        rest, self._rest = self._rest, b""
        self._write(rest)

    def _write(self, data: bytes) -> None:
        if data and self._label:
            data = b"".join(self._label + line for line in data.splitlines(keepends=True))
            if not data.endswith((b"\n", b"\r")):
                data += b"\n"  # else the next label would stand in the middle of a line
        if data:
            self._file.write(data, self._who)
