"""The journal: every event that changed the scheduler, in order, before its answer leaves.

SQLite in WAL mode, one writing connection. An event is appended when the core has accepted it and
committed before any reply or order that follows from it is sent (server.py: one commit per batch of
messages). On start the server rebuilds its state by handling the journal's events again.

    events(seq, time, type, body, actions)      body and actions as JSON
    meta(key, value)                            schema, epoch
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from dq_server.core import actions as core_actions
from dq_server.core import events as core_events
from dq_server.core.actions import Action
from dq_server.core.errors import SchedulerError
from dq_server.core.events import Event

SCHEMA = 1
EVENT_TYPES: dict[str, type[Event]] = {t.__name__: t for t in core_events.Event.__args__}
ACTION_TYPES = {t.__name__: t for t in core_actions.Action.__args__}


class JournalError(SchedulerError):
    """The journal cannot be read or written; nothing may be acknowledged."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the journal."""

    seq: int
    time: float
    event: Event
    actions: str  # JSON: what the scheduler answered then


def actions_as_json(actions: list[Action]) -> str:
    """Canonical text of actions, for the journal and for comparing a replay with it."""
    return msgspec.json.encode([[type(a).__name__, a] for a in actions]).decode()


class Journal:
    """The one writer. `append` any number of times, then `commit`."""

    def __init__(self, path: Path, *, synchronous: str = "NORMAL") -> None:
        self.path = path
        try:
            path.touch(mode=0o600, exist_ok=True)
            self._db = sqlite3.connect(path, isolation_level=None)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute(f"PRAGMA synchronous={synchronous}")
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS events (seq INTEGER PRIMARY KEY, time REAL NOT NULL,"
                " type TEXT NOT NULL, body TEXT NOT NULL, actions TEXT NOT NULL)"
            )
            self._db.execute("CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT)")
            self._check_schema()
        except (OSError, sqlite3.Error) as e:
            raise JournalError(f"{path}: cannot be used as the journal ({e})") from e
        self._open = False

    def _check_schema(self) -> None:
        found = self.meta("schema")
        if found is None:
            self._db.execute("INSERT INTO meta VALUES ('schema', ?)", (str(SCHEMA),))
        elif int(found) != SCHEMA:
            raise JournalError(f"{self.path}: written by another version (schema {found})")

    def meta(self, key: str) -> str | None:
        """A value of the meta table."""
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def next_epoch(self) -> int:
        """Count one more start of the server."""
        epoch = int(self.meta("epoch") or 0) + 1
        try:
            self._db.execute("INSERT OR REPLACE INTO meta VALUES ('epoch', ?)", (str(epoch),))
        except sqlite3.Error as e:
            raise JournalError(f"{self.path}: cannot be written ({e})") from e
        return epoch

    def append(self, time: float, event: Event, actions: list[Action]) -> None:
        """Add an event to the current batch."""
        try:
            if not self._open:
                self._db.execute("BEGIN IMMEDIATE")
                self._open = True
            self._db.execute(
                "INSERT INTO events (time, type, body, actions) VALUES (?, ?, ?, ?)",
                (
                    time,
                    type(event).__name__,
                    msgspec.json.encode(event).decode(),
                    actions_as_json(actions),
                ),
            )
        except sqlite3.Error as e:
            raise JournalError(f"{self.path}: cannot be written ({e})") from e

    def commit(self) -> None:
        """Make the batch safe. On JournalError nothing of it is."""
        if not self._open:
            return
        try:
            self._db.execute("COMMIT")
        except sqlite3.Error as e:
            raise JournalError(f"{self.path}: cannot be written ({e})") from e
        self._open = False

    def rollback(self) -> None:
        """Forget the batch."""
        if self._open:
            self._open = False
            self._db.execute("ROLLBACK")

    def entries(self) -> Iterator[Entry]:
        """All entries in order."""
        yield from read_entries(self._db, self.path)

    def close(self) -> None:
        """Close the file."""
        self._db.close()


def read_entries(db: sqlite3.Connection, path: Path) -> Iterator[Entry]:
    """Entries of an open journal; JournalError names the first one that makes no sense."""
    try:
        for seq, time, kind, body, actions in db.execute("SELECT * FROM events ORDER BY seq"):
            try:
                event = msgspec.json.decode(body, type=EVENT_TYPES[kind])
            except (KeyError, msgspec.DecodeError) as e:
                raise JournalError(f"{path}: event {seq} ({kind}) is damaged: {e}") from e
            yield Entry(seq, time, event, actions)
    except sqlite3.Error as e:
        raise JournalError(f"{path}: is damaged ({e}); restore it or move it away") from e
