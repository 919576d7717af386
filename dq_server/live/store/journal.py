"""The journal: every event that changed the scheduler, in order, before its answer leaves.

SQLite in WAL mode, one writing connection. An event is appended when the core has accepted it and
committed before any reply or order that follows from it is sent (server.py: one commit per batch of
messages). On start the server takes the newest snapshot of its state and handles the events after
it again; each must lead to the same actions as the first time.

The tables are in journal_file.py. Everything has a checksum, and beside the file stands how far it
went (checksums.py), so damage is noticed at a start and said. That comes before anything is
written, because SQLite would write over what is damaged.

Commits survive the death of the process. Those that somebody relies on also survive that of the
machine: they are flushed to the disk, unlike remap points that were answered `continue`, by far the
most frequent ones, whose loss changes nothing.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import get_args

import msgspec

from dq_client import __version__
from dq_client.base import messages as m
from dq_client.base import opened, storage
from dq_server.core.model.actions import Action
from dq_server.core.model.errors import ConfigError, SchedulerError
from dq_server.core.model.events import EVENTS, Configured, Event
from dq_server.core.settings import from_recorded
from dq_server.live.rate_limited_log import RateLimitedLog
from dq_server.live.store import checksums, journal_copy, journal_file
from dq_server.live.store.checksums import JournalPosition, Known
from dq_server.live.store.durability import relied_on
from dq_server.live.store.journal_file import ANY, Broken
from dq_server.live.store.verify_on_open import WHAT_TO_DO, NotWhole, damaged, look

log = logging.getLogger("dq.server")
complaints = RateLimitedLog(log)

WAL_PAGES = 8000  # of 4 KiB
SNAPSHOTS = 2  # the newest, and one in case that it is damaged
# What a file is bounded by: events of the past, for who follows the server or replays its journal
# (snapshots tell the state), and what is told of jobs that have ended (0.7 KB each).
EVENTS_KEPT = 100_000
ENDED_KEPT = 1_000_000
COMPACTED_MAX = 5000  # events a time: more than come between two snapshots
ACTION_TYPES: dict[str, type[Action]] = {t.__name__: t for t in get_args(Action)}


class JournalError(Exception):
    """The journal cannot be read or written; nothing may be acknowledged.

    No SchedulerError: the event may be legal, the disk or the file is not.
    """


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the journal."""

    seq: int
    time: float
    event: Event
    actions: str  # JSON: what the scheduler answered then


class Unrepresentable(SchedulerError):
    """An event that would not come back from the journal as it went in."""


def event_as_json(event: Event) -> str:
    """Text of an event; Unrepresentable if it has a figure that JSON cannot hold (infinity)."""
    body = msgspec.json.encode(event)
    try:
        same = msgspec.json.decode(body, type=type(event)) == event
    except msgspec.DecodeError:
        same = False
    if not same:
        raise Unrepresentable(f"not a {type(event).__name__} that can be kept: {str(event)[:200]}")
    return body.decode()


def event_of(kind: str, body: str) -> Event:
    """An event by the name of its type, from its text, as this or an older version wrote it."""
    if kind == Configured.__name__:
        return Configured(from_recorded(msgspec.json.decode(body)["config"]))
    return msgspec.json.decode(body, type=EVENTS[kind])


def actions_as_json(actions: list[Action]) -> str:
    """Canonical text of actions, for the journal and for comparing a replay with it."""
    return msgspec.json.encode([[type(a).__name__, a] for a in actions]).decode()


def actions_of(text: str) -> list[Action]:
    """Actions from their text, as this or an older version wrote it."""
    pairs = msgspec.json.decode(text, type=list[tuple[str, msgspec.Raw]])
    return [msgspec.json.decode(body, type=ACTION_TYPES[kind]) for kind, body in pairs]


class Journal:
    """The one writer. `append` any number of times, then `commit`; see Store (interface.py)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._open = False  # a batch has begun
        self._flush = False  # and shall reach the disk
        self._broken = ""  # why this batch cannot be saved any more
        self._wal = -1
        self._snapshot_chain: dict[int, bytes] = {}  # of the snapshot that was loaded last
        try:
            journal_file.require_files(path)
            known = look(path)
        except NotWhole as e:
            raise JournalError(str(e)) from e
        except OSError as e:
            raise JournalError(f"{path}: cannot be used as the journal ({e})") from e
        try:
            os.close(opened.open_own(path, os.O_RDWR | os.O_CREAT))
            self._db = sqlite3.connect(path, isolation_level=None)
        except (OSError, sqlite3.Error) as e:
            raise JournalError(f"{path}: cannot be used as the journal ({e})") from e
        try:
            self._prepare(known)
        except (OSError, sqlite3.Error, ValueError) as e:
            self._db.close()
            raise JournalError(f"{path}: cannot be used as the journal ({e}){_advice(e)}") from e

    def _prepare(self, known: Known) -> None:
        db = self._db
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=NORMAL")  # flushing is up to `commit`
        db.execute(f"PRAGMA wal_autocheckpoint={WAL_PAGES}")  # seldom: it flushes everything
        # First: a journal with tables and without a note is one that has lost it.
        self._note = checksums.ChecksumFile(checksums.note_of(self.path), known)
        schema = journal_file.schema_of(db)
        if schema is None:
            journal_file.make(db)
        elif schema < journal_file.SCHEMA:
            journal_file.migrate(db)
        self._wal = opened.open_own(f"{self.path}-wal", os.O_RDWR)
        self._last = self._saved = journal_file.last_event(db)  # appended; committed
        self.first = journal_file.first_event(db)
        self.patched = self.meta("patched") is not None
        # What was committed and not flushed shall outlive the machine's next start, too.
        os.fdatasync(self._wal)
        self._note.committed(self._last, flushed=True)

    def meta(self, key: str) -> str | None:
        """A value of the meta table."""
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def note(self, key: str, value: str) -> None:
        """Keep a value beside the events: with the batch, or at once if there is none."""
        try:
            self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))
            if not self._db.in_transaction:
                os.fdatasync(self._wal)
        except (OSError, sqlite3.Error) as e:
            raise JournalError(f"{self.path}: cannot be written ({e})") from e
        self._flush = True

    def noted(self, key: str) -> str:
        return self.meta(key) or ""

    def chain_of(self, seq: int) -> bytes | None:
        return self._last.chain if seq == self._last.seq else journal_file.sum_of(self._db, seq)

    def newest_snapshot(self) -> int:
        return journal_copy.newest_snapshot(self._db)

    def base(self) -> m.Base:
        """The newest snapshot, for a copy to begin with (journal_copy.py)."""
        return journal_copy.base(self._db)

    def lines(self, after: int, at_most: int, bytes_max: int) -> list[m.Line]:
        return journal_copy.lines(self._db, after, at_most, bytes_max)

    def ended(self, after: int, at_most: int) -> list[tuple[int, bytes]]:
        return journal_copy.ended(self._db, after, at_most)

    def rules(self) -> list[tuple[int, str]]:
        """The versions of DQ that decided, each with the event after which it began."""
        return self._db.execute("SELECT seq, version FROM rules ORDER BY seq").fetchall()

    def next_epoch(self, least: int = 0) -> int:
        """Count one more start of the server, of this version."""
        try:
            epoch = checksums.epoch_after(
                int(self.meta("epoch") or 0), self._note.known.epoch, max(0, least - 1)
            )
            self._db.execute("INSERT OR REPLACE INTO meta VALUES ('epoch', ?)", (str(epoch),))
            if [version for _, version in self.rules()][-1:] != [__version__]:
                row = self._saved.seq, __version__
                self._db.execute("INSERT OR REPLACE INTO rules VALUES (?, ?)", row)
            os.fdatasync(self._wal)
            self._note.started(epoch)
        except (OSError, sqlite3.Error, ValueError) as e:
            raise JournalError(f"{self.path}: cannot be written ({e}){_advice(e)}") from e
        return epoch

    def append(self, time: float, event: Event, body: str, actions: list[Action]) -> None:
        if self._broken:
            raise JournalError(self._broken)
        seq = self._last.seq + 1
        what = time, type(event).__name__, body, actions_as_json(actions)
        chain = checksums.chained(self._last.chain, seq, *what)
        try:
            if not self._open:
                self._db.execute("BEGIN IMMEDIATE")
                self._open = True
            self._db.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", (seq, *what, chain))
        except sqlite3.Error as e:
            # SQLite may have undone the whole batch by itself: nothing more may join it.
            self._broken = f"{self.path}: cannot be written ({e})"
            raise JournalError(self._broken) from e
        self._last = JournalPosition(seq, chain)
        # Or, not assign: one event that somebody relies on obliges the whole batch.
        self._flush |= relied_on(event, actions)

    def archive(self, job: int, body: bytes) -> None:
        if self._broken:
            raise JournalError(self._broken)
        try:
            body = zlib.compress(body)
            row = job, body, checksums.of_ended(job, body)
            self._db.execute("INSERT OR REPLACE INTO ended VALUES (?, ?, ?)", row)
        except sqlite3.Error as e:
            self._broken = f"{self.path}: cannot be written ({e})"
            raise JournalError(self._broken) from e

    def archived(self, job: int) -> bytes | None:
        try:
            row = self._db.execute("SELECT body, sum FROM ended WHERE job = ?", (job,)).fetchone()
        except sqlite3.Error as e:
            raise JournalError(f"{self.path}: cannot be read ({e})") from e
        if row is not None and checksums.of_ended(job, row[0]) != row[1]:
            raise JournalError(f"{self.path}: the record of job {job} is damaged")
        if row is None:
            return None
        body = bytes(row[0])  # of 0.1: not compressed
        return body if body.startswith(b"{") else zlib.decompress(body)

    def commit(self) -> None:
        if self._broken:
            raise JournalError(self._broken)
        if not self._open:
            self._tell(self._note.flush_if_due)  # nothing may follow for an hour
            return
        try:
            self._db.execute("COMMIT")
        except sqlite3.Error as e:
            self._broken = f"{self.path}: cannot be written ({e})"
            raise JournalError(self._broken) from e
        self._open = False
        self._saved = self._last
        flush = self._flush
        if flush:
            self._flush = False
            try:
                os.fdatasync(self._wal)
            except OSError as e:
                # It is in the journal, perhaps on the disk: no honest answer is possible.
                raise SystemExit(f"{self.path}: the disk fails ({e}): the server stops") from e
        self._tell(partial(self._note.committed, self._saved, flushed=flush))

    def _tell(self, note: Callable[[], None]) -> None:
        try:
            note()
        except OSError as e:  # all is safe; only the loss of its end would not be noticed
            complaints.warning("%s cannot be written: %s", checksums.note_of(self.path), e)

    def rollback(self) -> None:
        self._open = self._flush = False
        self._broken = ""
        self._last = self._saved
        try:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            self.patched = self.meta("patched") is not None
        except sqlite3.Error as e:
            raise JournalError(f"{self.path}: cannot be read ({e})") from e

    def fault(self) -> str:
        if found := storage.fault(self.path.parent):
            return found
        try:
            self._db.execute("INSERT OR REPLACE INTO meta VALUES ('tried', '')")
        except sqlite3.Error as e:
            return f"{self.path}: cannot be written ({e})"
        return ""

    def clear(self) -> None:
        """It does not matter any more that it is patched; with the batch, or the next one."""
        try:
            self._db.execute("DELETE FROM meta WHERE key = 'patched'")
        except sqlite3.Error as e:
            complaints.warning("%s cannot be written: %s", self.path, e)  # the next start says it
        self.patched = False

    def entries(self, after: int = 0) -> Iterator[Entry]:
        # A state that needs what is not kept any more is none: recovery.py sees to that.
        after = max(after, self.first - 1)
        chain = self._snapshot_chain.get(after) or journal_file.sum_of(self._db, after)
        yield from read_entries(self._db, self.path, after, chain)

    def load_snapshot(self, before: int = ANY) -> tuple[int, bytes] | None:
        try:
            for seq, chain, body in journal_file.snapshots(self._db, before):
                if body is not None:
                    self._snapshot_chain = {seq: chain}
                    return seq, body
                log.warning("%s: the snapshot of event %d is damaged", self.path, seq)
        except (sqlite3.Error, TypeError, struct.error) as e:
            log.warning("%s: the snapshots cannot be read: %s", self.path, e)  # the events tell all
        return None

    def save_snapshot(self, seq: int, body: bytes) -> None:
        """Keep a snapshot of the state after event `seq`; not in the middle of a batch."""
        try:
            chain = journal_file.sum_of(self._db, seq) or b""
            row = seq, chain, checksums.of_snapshot(seq, chain, body), body
            self._db.execute("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?)", row)
            self._db.execute(
                "DELETE FROM snapshots WHERE seq NOT IN"
                " (SELECT seq FROM snapshots ORDER BY seq DESC LIMIT ?)",
                (SNAPSHOTS,),
            )
            self._compact()
        except sqlite3.Error as e:
            raise JournalError(f"{self.path}: no room for a snapshot ({e})") from e

    def _compact(self) -> None:
        """Drop a part of what is older than anything needs; in small steps, since others wait."""
        oldest = self._db.execute("SELECT min(seq) FROM snapshots").fetchone()[0]
        end = min(oldest, self._saved.seq - EVENTS_KEPT, self.first + COMPACTED_MAX)
        if end > self.first:
            self._db.execute("DELETE FROM events WHERE seq < ?", (end,))
            self.first = end
        self._db.execute(
            "DELETE FROM ended WHERE job <= (SELECT max(job) FROM ended) - ?", (ENDED_KEPT,)
        )

    def close(self) -> None:
        """Close the file; what was committed is on the disk then."""
        if self._wal >= 0:
            os.close(self._wal)
            self._wal = -1
            self._db.close()
            with suppress(OSError):  # it is less than what is known already
                self._note.committed(self._saved, flushed=True)
                self._note.flush()
            self._note.close()


def _advice(error: Exception) -> str:
    """What to do, where the file is at fault and not the disk: SQLite has a type for each."""
    return f"; {WHAT_TO_DO}" if type(error) is sqlite3.DatabaseError else ""


def read_entries(
    db: sqlite3.Connection, path: Path, after: int = 0, chain: bytes | None = None
) -> Iterator[Entry]:
    """Entries of an open journal; JournalError names the first one that makes no sense.

    chain  the checksum of event `after`, if it is known
    """
    try:
        for seq, time, kind, body, actions, _ in journal_file.rows(db, after, chain):
            try:
                event = event_of(kind, body)
            except (KeyError, TypeError, ConfigError, msgspec.DecodeError) as e:
                # As it was written; another version of DQ may know what it is.
                raise JournalError(f"{path}: event {seq} ({kind}) cannot be read: {e}") from e
            yield Entry(seq, time, event, actions)
    except Broken as e:
        raise JournalError(str(damaged(path, str(e), e.sound))) from e
