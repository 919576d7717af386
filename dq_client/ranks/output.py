"""The output of ranks: whole lines, from many ranks into one file, none of them torn.

Ranks write into pipes, the keeper reads them and appends whole lines to the job's file with one
write each time (O_APPEND: the keepers of other nodes append to the same file). What has no line end
yet waits for it; a carriage return counts as one, because progress bars end their lines with it.
"""

from __future__ import annotations

import fcntl
import os
from typing import Optional

from .marks import SUFFIX, Marks, Who, label_of
from .opened import open_output

PIECE_BYTES = 1 << 20
LINE_BYTES_MAX = 1 << 20  # a longer line is passed on in pieces
PIPE_BYTES = 1 << 20  # what a rank can write before it waits for the keeper
F_SETPIPE_SZ = 1031


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
    """A job's output file. Bytes that cannot be written (a full disk) are counted, not kept.

    The file may not even be made at first: that, too, ends no job.
    """

    def __init__(self, path: str) -> None:
        self._path, self._fd = path, -1
        self._marks = Marks(path + SUFFIX)
        self.lost = 0
        self.why = ""
        self.write(b"")

    def write(self, data: bytes, who: Optional[Who] = None) -> None:
        """Append all of it, and note who has written it unless a label says so."""
        view = memoryview(data)
        try:
            if self._fd < 0:
                self._fd = open_output(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            if self.lost:
                os.write(self._fd, f"\ndq: {self.lost} bytes are missing: {self.why}\n".encode())
                self.lost = 0
            while view:
                written = os.write(self._fd, view)
                if who is not None:
                    self._note(written, who)
                view = view[written:]
        except OSError as e:
            self.lost += len(view)
            self.why = e.strerror or ""
        else:
            self.why = ""

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
