"""Checksums by which damage to a journal is noticed, and what is known of it outside of its file.

Each entry carries a checksum of itself and of the checksum before it, so that what was changed,
exchanged or left out shows wherever reading begins. That catches no lost end: SQLite drops the tail
of a write-ahead log in silence, from the first frame on that has a flipped bit. How far the journal
went is therefore also said in a file of its own beside it, `journal.sqlite-last`: one line, written
in place after each commit.

    written   the last event that was committed; it counts while the machine has not been started
              again, because until then the kernel has every write
    flushed   the last one that has reached the disk; it counts after that

The line is written behind the journal, never before it, so it never promises too much. It is
flushed once a second at most, and within a second of what it tells: power that fails within that
second, and damage of the very entries of that second, go unnoticed together.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
import time
from dataclasses import dataclass, replace
from pathlib import Path

from dq_client.base import opened
from dq_client.base.messages import EPOCH_MAX

START = bytes(16)  # what the first entry is chained to
SIZE = 16  # bytes of a checksum
LINE = 256  # bytes of the note: less than a sector, which a disk writes whole or not at all
FLUSH_S = 1.0
# Agents know the epoch of the last server, which may be later than that of a journal which was
# mended or restored; they obey a newer one only.
EPOCHS = 1000
MISSED_EPOCHS = 100 * EPOCHS  # of other servers, while this one was away
EPOCHS_AHEAD = 1_000_000  # of the clock: starts and standbys since an epoch was taken from it
EPOCHS_FROM_S = 1_700_000_000  # sessions are numbered by 53 bits, 29 of which are the epoch
_LINE = re.compile(
    r"events to (\d+) \(([0-9a-f]{32})\) written, to (\d+) \(([0-9a-f]{32})\) flushed,"
    r" start (\d+), boot (\S*): ([0-9a-f]{32}) *\n"
)


def digest(*parts: bytes) -> bytes:
    """A checksum of these bytes."""
    return hashlib.blake2b(b"".join(parts), digest_size=SIZE).digest()


def chained(before: bytes, seq: int, time: float, kind: str, body: str, actions: str) -> bytes:
    """The checksum of an entry after one with the checksum `before`."""
    # JSON has no zero bytes, so the texts cannot run into each other.
    text = f"{kind}\0{body}\0{actions}".encode()
    return hashlib.blake2b(before + struct.pack("<qd", seq, time) + text, digest_size=SIZE).digest()


def of_snapshot(seq: int, chain: bytes, body: bytes) -> bytes:
    """The checksum of a snapshot after event `seq`, whose checksum is `chain`."""
    return digest(struct.pack("<q", seq), chain, body)


def of_ended(job: int, body: bytes) -> bytes:
    """The checksum of what was archived of an ended job."""
    return digest(struct.pack("<q", job), body)


def raised(epoch: int) -> int:
    """Above every epoch so far, of which this one is the last that is still known."""
    # By the clock, too: what is known may be that of an old backup, long before the last mend.
    return max(epoch + EPOCHS, int(time.time() - EPOCHS_FROM_S) // 4)


def highest_plausible(epoch: int) -> int:
    """The highest epoch that an honest peer of a server (or standby) of this epoch can name.

    Honest epochs come from `raised`, from starts, and from standbys, which skip EPOCHS. A peer that
    names a higher one is not believed: one message with the largest number would otherwise leave
    no epoch to a later server. Above half of all numbers a peer's word raises nothing any more, so
    even a peer that goes up in small steps leaves the server numbers for its own starts.
    """
    step = min(epoch + MISSED_EPOCHS, EPOCH_MAX // 2)
    return max(epoch, step, min(raised(0) + EPOCHS_AHEAD, EPOCH_MAX // 2))


def epoch_after(*known: int) -> int:
    """The epoch of a start after these.

    A number above EPOCH_MAX was a peer's, when versions before 0.2 believed it. No agent can have
    obeyed such a server, since the session does not fit a message: the count begins above all
    others.
    """
    possible = [epoch for epoch in known if epoch < EPOCH_MAX]
    if len(possible) < len(known):
        return raised(max(possible, default=0))
    return max(possible) + 1


def boot() -> str:
    """What tells one start of this machine from the next; empty where that is not known."""
    try:
        return opened.kernel("/proc/sys/kernel/random/boot_id").decode().strip()
    except OSError:
        return ""


@dataclass(frozen=True, slots=True)
class JournalPosition:
    """A place in the journal: an event and its checksum."""

    seq: int = 0
    chain: bytes = START


@dataclass(frozen=True, slots=True)
class Known:
    """What the note says. `epoch`: starts of the server; `boot`: of which start of the machine."""

    written: JournalPosition = JournalPosition()
    flushed: JournalPosition = JournalPosition()
    epoch: int = 0
    boot: str = ""

    def expected(self, boot: str) -> JournalPosition:
        """The last event that must be in the journal, now that the machine's start is `boot`."""
        return self.written if boot and self.boot == boot else self.flushed

    def line(self) -> bytes:
        """As it stands in the file."""
        w, f = self.written, self.flushed
        text = (
            f"events to {w.seq} ({w.chain.hex()}) written, to {f.seq} ({f.chain.hex()}) flushed,"
            f" start {self.epoch}, boot {self.boot}: "
        )
        text += digest(text.encode()).hex()
        return text.ljust(LINE - 1).encode() + b"\n"


def read(path: Path) -> Known | None:
    """What a note says; None if there is none. ValueError if it is damaged."""
    try:
        line = opened.read(path)
    except FileNotFoundError:
        return None
    found = _LINE.fullmatch(line.decode("ascii", errors="replace"))
    if found is None or len(line) != LINE:
        raise ValueError("it is no line as DQ writes it")
    w, w_chain, f, f_chain, epoch, booted, _ = found.groups()
    written = JournalPosition(int(w), bytes.fromhex(w_chain))
    flushed = JournalPosition(int(f), bytes.fromhex(f_chain))
    known = Known(written, flushed, int(epoch), booted)
    if known.line() != line:
        raise ValueError("its checksum is wrong")
    return known


def note_of(journal: Path) -> Path:
    """Where the note of a journal lies."""
    return Path(f"{journal}-last")


class ChecksumFile:
    """The note of a journal that is being written."""

    def __init__(self, path: Path, known: Known) -> None:
        """Raises OSError if it cannot be written."""
        self.known = replace(known, boot=boot())
        self._flushed_s, self._stale = -FLUSH_S, False
        self._fd = opened.open_own(path, os.O_RDWR | os.O_CREAT)
        self._write()

    def committed(self, mark: JournalPosition, *, flushed: bool) -> None:
        """The journal has been committed up to there, and flushed. OSError if it cannot be said."""
        self.known = Known(
            mark, mark if flushed else self.known.flushed, self.known.epoch, self.known.boot
        )
        self._write()
        self._stale |= flushed
        self.flush_if_due()

    def flush_if_due(self) -> None:
        """To the disk if that says less than is safe, and was not told for a while; OSError."""
        if self._stale and time.monotonic() - self._flushed_s >= FLUSH_S:
            self.flush()

    def started(self, epoch: int) -> None:
        """A server starts, so many have before; OSError if it cannot be said."""
        self.known = replace(self.known, epoch=epoch)
        self._write()
        self.flush()

    def _write(self) -> None:
        # In place, into a block that is there already: that takes no room, and is never half done.
        os.pwrite(self._fd, self.known.line(), 0)

    def flush(self) -> None:
        """To the disk."""
        os.fsync(self._fd)
        self._flushed_s, self._stale = time.monotonic(), False

    def close(self) -> None:
        """Give the file back."""
        os.close(self._fd)
