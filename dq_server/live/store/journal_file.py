"""The tables of a journal's file: made, brought up to date, read with checksums.

    events(seq, time, type, body, actions, sum)  body and actions as JSON; seq without gaps
    snapshots(seq, chain, sum, body)             the state after event seq (snapshot.py)
    ended(job, body, sum)                        what there is to say of each job that has ended
    meta(key, value)                             schema, epoch; patched: mended or restored
    rules(seq, version)                          which version of DQ decided, after event seq

`sum` is a checksum (checksums.py). That of an event is chained to the one before; `chain` is that
of the event after which the snapshot was taken, so reading may begin there.
Schema 1 (DQ 0.1) had no checksums, and one snapshot in a table of another name.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from dq_client.base import opened
from dq_server.live.store.checksums import START, JournalPosition, chained, of_ended, of_snapshot

SCHEMA = 2
ANY = 1 << 62  # above every seq
TABLES = {
    "events": (
        "(seq INTEGER PRIMARY KEY, time REAL NOT NULL, type TEXT NOT NULL, body TEXT NOT NULL,"
        " actions TEXT NOT NULL, sum BLOB)"
    ),
    "snapshots": "(seq INTEGER PRIMARY KEY, chain BLOB, sum BLOB, body BLOB)",
    "ended": "(job INTEGER PRIMARY KEY, body BLOB, sum BLOB)",
    "meta": "(key TEXT PRIMARY KEY, value TEXT)",
    "rules": "(seq INTEGER PRIMARY KEY, version TEXT)",
}
EVENTS = "SELECT seq, time, type, body, actions, sum FROM events WHERE seq > ? ORDER BY seq"

Row = tuple[int, float, str, str, str, bytes]


class Broken(ValueError):
    """Something in the file is not as it was written. `sound`: the last event before it."""

    def __init__(self, sound: int, why: str) -> None:
        super().__init__(why)
        self.sound = sound


def require_files(path: Path) -> None:
    """OSError if what SQLite would open is there and no file of ours: it would wait for a FIFO."""
    for end in ("", "-wal", "-shm", "-journal"):
        with suppress(FileNotFoundError):
            os.close(opened.open_own(f"{path}{end}"))


def opened_to_read(path: Path) -> sqlite3.Connection:
    """A connection that changes nothing: not even its end takes the write-ahead log in. OSError."""
    require_files(path)
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)


def schema_of(db: sqlite3.Connection) -> int | None:
    """The schema of a journal; None if there are no tables yet. Broken if that cannot be told."""
    try:
        tables = {str(name) for (name,) in db.execute("SELECT name FROM sqlite_master")}
        if not tables:
            return None
        row = db.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone()
        schema = 0 if row is None else int(row[0])
    except (sqlite3.Error, ValueError) as e:
        raise Broken(0, str(e)) from e
    if schema == 0:
        raise Broken(0, "it does not say which version wrote it")
    missing = sorted(TABLES.keys() - tables) if schema == SCHEMA else []
    if missing:
        raise Broken(0, f"it has no table {missing[0]}")
    return schema


def make(db: sqlite3.Connection) -> None:
    """The tables of a new journal."""
    db.execute("BEGIN IMMEDIATE")
    for name, columns in TABLES.items():
        db.execute(f"CREATE TABLE {name} {columns}")
    db.execute("INSERT INTO meta VALUES ('schema', ?)", (str(SCHEMA),))
    db.execute("COMMIT")


def migrate(db: sqlite3.Connection) -> None:
    """Bring a journal of schema 1 up to date, in one transaction: all of it, or nothing."""
    db.execute("BEGIN IMMEDIATE")
    try:
        db.execute("ALTER TABLE events ADD COLUMN sum BLOB")
        seal(db)
        # The first servers of 0.1 had no such table yet.
        db.execute("CREATE TABLE IF NOT EXISTS ended (job INTEGER PRIMARY KEY, body BLOB)")
        db.execute("ALTER TABLE ended ADD COLUMN sum BLOB")
        db.create_function("sealed", 2, lambda job, body: of_ended(job, bytes(body)))
        db.execute("UPDATE ended SET sum = sealed(job, body)")
        db.execute(f"CREATE TABLE snapshots {TABLES['snapshots']}")
        _move_snapshot(db)
        db.execute(f"CREATE TABLE rules {TABLES['rules']}")
        db.execute("INSERT INTO rules VALUES (0, '0.1')")
        db.execute("UPDATE meta SET value = ? WHERE key = 'schema'", (str(SCHEMA),))
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise


def seal(db: sqlite3.Connection) -> None:
    """Give every event its checksum, taking all as they are."""
    chain = START
    rows = db.execute("SELECT seq, time, type, body, actions FROM events ORDER BY seq")
    while some := rows.fetchmany(1000):
        sums = []
        for seq, *what in some:
            chain = chained(chain, seq, *what)
            sums.append((chain, seq))
        db.executemany("UPDATE events SET sum = ? WHERE seq = ?", sums)


def _move_snapshot(db: sqlite3.Connection) -> None:
    """The snapshot of schema 1, if it is sound and follows an event."""
    if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'snapshot'").fetchone():
        return
    row = db.execute("SELECT seq, sum, body FROM snapshot").fetchone()
    db.execute("DROP TABLE snapshot")
    if row is None or hashlib.sha256(row[2]).digest() != row[1]:
        return  # the events tell all
    seq, body = int(row[0]), bytes(row[2])
    chain = db.execute("SELECT sum FROM events WHERE seq = ?", (seq,)).fetchone()
    if chain is not None:
        row = seq, chain[0], of_snapshot(seq, chain[0], body), body
        db.execute("INSERT INTO snapshots VALUES (?, ?, ?, ?)", row)


def mark_as_patched(db: sqlite3.Connection) -> None:
    """It was mended or restored: the next server reckons with events that it does not have."""
    db.execute("INSERT OR REPLACE INTO meta VALUES ('patched', '')")


def last_event(db: sqlite3.Connection) -> JournalPosition:
    """The last event and its checksum."""
    row = db.execute("SELECT seq, sum FROM events ORDER BY seq DESC LIMIT 1").fetchone()
    return JournalPosition() if row is None else JournalPosition(int(row[0]), bytes(row[1]))


def sum_of(db: sqlite3.Connection, seq: int) -> bytes | None:
    """The checksum of an event; None if there is no such event."""
    if seq == 0:
        return START
    row = db.execute("SELECT sum FROM events WHERE seq = ?", (seq,)).fetchone()
    return None if row is None else bytes(row[0])


def rows(db: sqlite3.Connection, after: int, chain: bytes | None) -> Iterator[Row]:
    """Events with a larger seq, in order. `chain`: the checksum of event `after`; None: unknown.

    Broken, with the last sound one, at the first that is missing or not as it was written.
    """
    last = after
    try:
        for row in db.execute(EVENTS, (after,)):
            seq, *what, found = row
            why = ""
            if seq != last + 1:
                why = f"events {last + 1} to {seq - 1} are missing"
            elif chain is not None and chained(chain, seq, *what) != found:
                why = f"event {seq} is not as it was written"
            if why:
                break
            chain, last = found, seq
            yield row
        else:
            return
    # Whatever a flipped bit makes of a column: another type, text that is none.
    except (sqlite3.Error, TypeError, ValueError, AttributeError, struct.error) as e:
        raise Broken(last, str(e)) from e
    raise Broken(last, why)


def snapshots(db: sqlite3.Connection, before: int) -> Iterator[tuple[int, bytes, bytes | None]]:
    """Snapshots of earlier events than this, newest first: after which event, the checksum of that
    event, and the bytes; None instead of bytes that are not as they were written."""
    for seq, chain, checksum, body in db.execute(
        "SELECT seq, chain, sum, body FROM snapshots WHERE seq < ? ORDER BY seq DESC", (before,)
    ).fetchall():
        sound = isinstance(body, bytes) and of_snapshot(seq, chain, body) == checksum
        yield seq, chain, body if sound else None


def first_event(db: sqlite3.Connection) -> int:
    """The first event that is kept (compacting drops old ones); 1 if there is none."""
    return int(db.execute("SELECT min(seq) FROM events").fetchone()[0] or 1)


def reach(db: sqlite3.Connection) -> tuple[int, int]:
    """Up to which event the state can be made again, and after which one reading begins for that.

    From the newest sound snapshot, an older one, or the first event: whatever reaches farthest.
    """
    begins: list[tuple[int, bytes]] = []
    try:
        found = snapshots(db, ANY)
        begins += [(seq, chain) for seq, chain, body in found if body is not None]
        if first_event(db) == 1:
            begins.append((0, START))
    except (sqlite3.Error, TypeError, ValueError, struct.error):
        pass  # what was found until then counts
    best = 0, 0
    for begin, chain in begins:
        last = begin
        try:
            for row in rows(db, begin, chain):
                last = row[0]
        except Broken:
            pass
        best = max(best, (last, begin))
    return best


def sound_to(db: sqlite3.Connection) -> int:
    """Up to which event the state can be made again."""
    return reach(db)[0]
