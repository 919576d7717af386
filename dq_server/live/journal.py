"""The journal: every event that changed the scheduler, in order, before its answer leaves.

SQLite in WAL mode, one writing connection. An event is appended when the core has accepted it and
committed before any reply or order that follows from it is sent (server.py: one commit per batch of
messages). On start the server takes the newest snapshot of its state and handles the events after
it again; each must lead to the same actions as the first time.

    events(seq, time, type, body, actions)      body and actions as JSON; seq without gaps
    snapshot(seq, sum, body)                    one row: the state after event seq (snapshot.py)
    ended(job, body)                            what there is to say of each job that has ended
    meta(key, value)                            schema, epoch

Commits survive the death of the process. Those that somebody relies on also survive that of the
machine: they are flushed to the disk, unlike remap points that were answered `continue`, by far the
most frequent ones, whose loss changes nothing.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from dq_client import storage
from dq_server.core.model import events as core_events
from dq_server.core.model.actions import Action, AnswerRemap
from dq_server.core.model.errors import ConfigError, SchedulerError
from dq_server.core.model.events import Configured, Event
from dq_server.core.settings import from_recorded

SCHEMA = 1
WAL_PAGES = 8000  # of 4 KiB
EVENT_TYPES: dict[str, type[Event]] = {t.__name__: t for t in core_events.Event.__args__}


class JournalError(SchedulerError):
    """The journal cannot be read or written; nothing may be acknowledged."""


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
    return msgspec.json.decode(body, type=EVENT_TYPES[kind])


def actions_as_json(actions: list[Action]) -> str:
    """Canonical text of actions, for the journal and for comparing a replay with it."""
    return msgspec.json.encode([[type(a).__name__, a] for a in actions]).decode()


class Store(Protocol):
    """What the server needs of a journal (tests/dst has one that loses power)."""

    def next_epoch(self) -> int:
        """Count one more start of the server."""

    def append(self, time: float, event: Event, body: str, actions: list[Action]) -> None:
        """Add an event (`body`: its text) to the batch; JournalError if that is impossible."""

    def archive(self, job: int, body: bytes) -> None:
        """Add what shall be known of an ended job to the batch; after the event of its end."""

    def archived(self, job: int) -> bytes | None:
        """What was archived of a job; None if nothing was."""

    def commit(self) -> None:
        """Make the batch safe. On JournalError nothing of it is."""

    def rollback(self) -> None:
        """Forget the batch."""

    def fault(self) -> str:
        """Why nothing can be saved at present, by trial; empty: something was. Between batches."""

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """Entries with a larger seq, in order, the current batch included."""

    def load_snapshot(self) -> tuple[int, bytes] | None:
        """The newest snapshot, if there is a sound one: after which event, and what."""

    def save_snapshot(self, seq: int, body: bytes) -> None:
        """Keep a snapshot of the state after event `seq`."""

    def close(self) -> None:
        """Give the store back."""


class Journal:
    """The one writer. `append` any number of times, then `commit`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._open = False  # a batch has begun
        self._flush = False  # and shall reach the disk
        self._broken = ""  # why this batch cannot be saved any more
        self._wal = -1
        try:
            path.touch(mode=0o600, exist_ok=True)
            self._db = sqlite3.connect(path, isolation_level=None)
        except (OSError, sqlite3.Error) as e:
            raise JournalError(f"{path}: cannot be used as the journal ({e})") from e
        try:
            self._prepare()
        except (OSError, sqlite3.Error, ValueError) as e:
            self._db.close()
            raise JournalError(f"{path}: cannot be used as the journal ({e})") from e
        except JournalError:
            self._db.close()
            raise

    def _prepare(self) -> None:
        db = self._db
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=NORMAL")  # flushing is up to `commit`
        db.execute(f"PRAGMA wal_autocheckpoint={WAL_PAGES}")  # seldom: it flushes everything
        db.execute(
            "CREATE TABLE IF NOT EXISTS events (seq INTEGER PRIMARY KEY, time REAL NOT NULL,"
            " type TEXT NOT NULL, body TEXT NOT NULL, actions TEXT NOT NULL)"
        )
        db.execute("CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT)")
        db.execute(
            "CREATE TABLE IF NOT EXISTS snapshot"
            " (one INTEGER PRIMARY KEY CHECK (one = 1), seq INTEGER, sum BLOB, body BLOB)"
        )
        db.execute("CREATE TABLE IF NOT EXISTS ended (job INTEGER PRIMARY KEY, body BLOB)")
        found = self.meta("schema")
        if found is None:
            db.execute("INSERT INTO meta VALUES ('schema', ?)", (str(SCHEMA),))
        elif int(found) != SCHEMA:
            raise JournalError(f"{self.path}: written by another version (schema {found})")
        self._wal = os.open(f"{self.path}-wal", os.O_RDWR)

    def meta(self, key: str) -> str | None:
        """A value of the meta table."""
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def next_epoch(self) -> int:
        """Count one more start of the server."""
        try:
            epoch = int(self.meta("epoch") or 0) + 1
            self._db.execute("INSERT OR REPLACE INTO meta VALUES ('epoch', ?)", (str(epoch),))
            os.fdatasync(self._wal)
        except (OSError, sqlite3.Error, ValueError) as e:
            raise JournalError(f"{self.path}: cannot be written ({e})") from e
        return epoch

    def append(self, time: float, event: Event, body: str, actions: list[Action]) -> None:
        """Add an event to the current batch."""
        if self._broken:
            raise JournalError(self._broken)
        try:
            if not self._open:
                self._db.execute("BEGIN IMMEDIATE")
                self._open = True
            self._db.execute(
                "INSERT INTO events (time, type, body, actions) VALUES (?, ?, ?, ?)",
                (
                    time,
                    type(event).__name__,
                    body,
                    actions_as_json(actions),
                ),
            )
        except sqlite3.Error as e:
            # SQLite may have undone the whole batch by itself: nothing more may join it.
            self._broken = f"{self.path}: cannot be written ({e})"
            raise JournalError(self._broken) from e
        # Or, not assign: one event that somebody relies on obliges the whole batch.
        self._flush |= _relied_on(actions)

    def archive(self, job: int, body: bytes) -> None:
        """Add what shall be known of an ended job to the batch; after the event of its end."""
        if self._broken:
            raise JournalError(self._broken)
        try:
            self._db.execute("INSERT OR REPLACE INTO ended VALUES (?, ?)", (job, body))
        except sqlite3.Error as e:
            self._broken = f"{self.path}: cannot be written ({e})"
            raise JournalError(self._broken) from e

    def archived(self, job: int) -> bytes | None:
        """What was archived of a job; None if nothing was."""
        try:
            row = self._db.execute("SELECT body FROM ended WHERE job = ?", (job,)).fetchone()
        except sqlite3.Error as e:
            raise JournalError(f"{self.path}: cannot be read ({e})") from e
        return None if row is None else bytes(row[0])

    def commit(self) -> None:
        """Make the batch safe. On JournalError nothing of it is."""
        if self._broken:
            raise JournalError(self._broken)
        if not self._open:
            return
        try:
            self._db.execute("COMMIT")
        except sqlite3.Error as e:
            self._broken = f"{self.path}: cannot be written ({e})"
            raise JournalError(self._broken) from e
        self._open = False
        if self._flush:
            self._flush = False
            try:
                os.fdatasync(self._wal)
            except OSError as e:
                # It is in the journal, perhaps on the disk: no honest answer is possible.
                raise SystemExit(f"{self.path}: the disk fails ({e}): the server stops") from e

    def rollback(self) -> None:
        """Forget the batch."""
        self._open = self._flush = False
        self._broken = ""
        try:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
        except sqlite3.Error as e:
            raise JournalError(f"{self.path}: cannot be read ({e})") from e

    def fault(self) -> str:
        """Why nothing can be saved at present, by trial; empty: something was. Between batches."""
        if found := storage.fault(self.path.parent):
            return found
        try:
            self._db.execute("INSERT OR REPLACE INTO meta VALUES ('tried', '')")
        except sqlite3.Error as e:
            return f"{self.path}: cannot be written ({e})"
        return ""

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """Entries with a larger seq, in order, the current batch included."""
        yield from read_entries(self._db, self.path, after)

    def load_snapshot(self) -> tuple[int, bytes] | None:
        """The newest snapshot, if there is a sound one: after which event, and what."""
        try:
            row = self._db.execute("SELECT seq, sum, body FROM snapshot").fetchone()
        except sqlite3.Error:
            return None  # the events tell all
        if row is None or hashlib.sha256(row[2]).digest() != row[1]:
            return None
        return int(row[0]), bytes(row[2])

    def save_snapshot(self, seq: int, body: bytes) -> None:
        """Keep a snapshot of the state after event `seq`; not in the middle of a batch."""
        row = (seq, hashlib.sha256(body).digest(), body)
        try:
            self._db.execute("INSERT OR REPLACE INTO snapshot VALUES (1, ?, ?, ?)", row)
        except sqlite3.Error as e:
            raise JournalError(f"{self.path}: no room for a snapshot ({e})") from e

    def close(self) -> None:
        """Close the file."""
        if self._wal >= 0:
            os.close(self._wal)
            self._wal = -1
        self._db.close()


def _relied_on(actions: list[Action]) -> bool:
    """Whether somebody will act on this event's outcome."""
    return not all(isinstance(a, AnswerRemap) and a.answer.what == "continue" for a in actions)


def read_entries(db: sqlite3.Connection, path: Path, after: int = 0) -> Iterator[Entry]:
    """Entries of an open journal; JournalError names the first one that makes no sense."""
    last = after
    try:
        for seq, time, kind, body, actions in db.execute(
            "SELECT seq, time, type, body, actions FROM events WHERE seq > ? ORDER BY seq", (after,)
        ):
            if seq != last + 1:
                raise JournalError(f"{path}: events {last + 1} to {seq - 1} are missing")
            last = seq
            try:
                event = event_of(kind, body)
            except (KeyError, TypeError, ConfigError, msgspec.DecodeError) as e:
                raise JournalError(f"{path}: event {seq} ({kind}) is damaged: {e}") from e
            yield Entry(seq, time, event, actions)
    except (sqlite3.Error, UnicodeDecodeError) as e:
        raise JournalError(f"{path}: is damaged ({e}); restore it or move it away") from e
