"""A journal looked through whole, and a new one made of what is sound (`dq server check`).

A start looks at what it needs only. `examine` reads every event, snapshot and record, while a
server runs or not, and changes nothing.
"""

from __future__ import annotations

import sqlite3
import struct
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from dq_server.core.model.errors import ConfigError
from dq_server.core.model.events import EventsLost
from dq_server.live.store import checksums, identity, journal_file, snapshot
from dq_server.live.store.checksums import START, JournalPosition, Known
from dq_server.live.store.journal import JournalError, actions_as_json, event_as_json, event_of
from dq_server.live.store.journal_file import ANY, SCHEMA, Broken

PROBLEMS_MAX = 20
READING = (sqlite3.Error, TypeError, ValueError, struct.error)


def examine(path: Path) -> dict[str, Any]:
    """What there is, and under `problems` what is wrong with it, a line each; none: all is well."""
    found: dict[str, Any] = {"journal": str(path), "problems": []}
    problems: list[str] = found["problems"]
    known = None
    try:  # before the events: a running server goes on meanwhile
        known = checksums.read(checksums.note_of(path))
    except (OSError, ValueError) as e:
        problems.append(f"{checksums.note_of(path).name}: {e}")
    try:
        path.stat()  # SQLite's own words for a missing file name none
        with closing(journal_file.opened_to_read(path)) as db:
            db.execute("BEGIN")
            _examine(db, known, found)
    except (*READING, OSError, JournalError) as e:
        problems.append(" ".join(str(e).split()))
    del problems[PROBLEMS_MAX:]
    return found


def _examine(db: sqlite3.Connection, known: Known | None, found: dict[str, Any]) -> None:
    problems: list[str] = found["problems"]
    schema = journal_file.schema_of(db)
    found["journal_schema"] = schema
    if schema is None:
        problems.append("the file has no tables")
        return
    problems += [
        f"structure: {' '.join(str(line).split())}"
        for (line,) in db.execute("PRAGMA integrity_check")
        if line != "ok"
    ]
    if schema != SCHEMA:
        # Before 0.2 nothing had a checksum: the structure is all that can be looked at.
        found["events"] = {
            "last": int(db.execute("SELECT max(seq) FROM events").fetchone()[0] or 0)
        }
        return
    found["versions"] = [
        {"after": seq, "version": version}
        for seq, version in db.execute("SELECT seq, version FROM rules ORDER BY seq")
    ]
    sound, begin = journal_file.reach(db)
    last, first = journal_file.last_event(db), journal_file.first_event(db)
    found["events"] = {"first": first, "last": last.seq, "sound_to": sound, "read_from": begin}
    problems += _events(db, first)
    problems += _end(db, known, last)
    found["snapshots"] = [seq for seq, _, _ in journal_file.snapshots(db, ANY)]
    problems += _snapshots(db)
    count, damaged = 0, list[int]()
    for job, body, checksum in db.execute("SELECT job, body, sum FROM ended"):
        count += 1
        if not isinstance(body, bytes) or checksums.of_ended(job, body) != checksum:
            damaged.append(job)
    found["ended_jobs"] = count
    problems += [f"what was kept of ended job {job} is damaged" for job in damaged]


def _events(db: sqlite3.Connection, first: int) -> list[str]:
    """What is wrong with the events, one after the other."""
    chain = START if first == 1 else None
    try:
        for seq, _, kind, body, _, _ in journal_file.rows(db, first - 1, chain):
            try:
                event_of(kind, body)
            except (KeyError, TypeError, ConfigError, msgspec.DecodeError) as e:
                return [f"event {seq} ({kind}) cannot be read: {e}"]
    except Broken as e:
        return [f"events: {e}; all before, to {e.sound}, is well"]
    return []


def _end(db: sqlite3.Connection, known: Known | None, last: JournalPosition) -> list[str]:
    """Whether the journal goes as far as it went."""
    if known is None:
        return [f"journal.sqlite-last is missing: nothing tells how far {last.seq} events went"]
    expected = known.expected(checksums.boot())
    if last.seq < expected.seq:
        return [f"it ends with event {last.seq}, {expected.seq} were written"]
    if journal_file.sum_of(db, expected.seq) != expected.chain:
        return [f"event {expected.seq} is another one than was written"]
    return []


def _snapshots(db: sqlite3.Connection) -> list[str]:
    problems = []
    for seq, _, body in journal_file.snapshots(db, ANY):
        if body is None:
            problems.append(f"the snapshot of event {seq} is damaged")
            continue
        try:
            snapshot.decode(body)
        except snapshot.DamagedSnapshot as e:
            problems.append(f"the snapshot of event {seq} cannot be read: {e}")
    return problems


# --- what is sound ------------------------------------------------------------------------------


def copy_sound(path: Path, target: Path) -> dict[str, Any]:
    """Make a new journal of all that is sound of this one; what it has, and what is lost.

    JournalError, and nothing was made that counts, if there is nothing to go on with.
    """
    try:
        with closing(journal_file.opened_to_read(path)) as db:
            schema = journal_file.schema_of(db)
            if schema is not None and schema != SCHEMA:
                raise JournalError(
                    f"{path}: of schema {schema}: a server brings it up to date first"
                )
            end, begin = (0, 0) if schema is None else journal_file.reach(db)
            if end == 0:
                raise JournalError(f"{path}: no part of it is sound: dq restore FILE")
            epoch, written = _known(path, db)
            with closing(sqlite3.connect(target, isolation_level=None)) as new:
                _copy(db, new, begin, end)
                mark = journal_file.last_event(new)
    except (*READING, OSError) as e:
        raise JournalError(f"{path}: no part of it can be read ({e}): dq restore FILE") from e
    epoch = checksums.raised(epoch)
    checksums.ChecksumFile(checksums.note_of(target), Known(mark, mark, epoch)).close()
    return {"sound_to": end, "written": max(end, written)}


def _copy(db: sqlite3.Connection, new: sqlite3.Connection, begin: int, end: int) -> None:
    journal_file.make(new)
    new.execute("BEGIN")
    first = journal_file.first_event(db)
    # With the history before the snapshot, if that is sound, too.
    after = first - 1 if _whole(db, first, end) else begin
    for row in db.execute(f"{journal_file.EVENTS} LIMIT ?", (after, end - after)):
        new.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", row)
    for seq, chain_of, body in journal_file.snapshots(db, end + 1):
        if body is not None and seq >= after:  # an older one has not its events behind it
            sealed = checksums.of_snapshot(seq, chain_of, body)
            new.execute("INSERT INTO snapshots VALUES (?, ?, ?, ?)", (seq, chain_of, sealed, body))
    for job, body, checksum in db.execute("SELECT job, body, sum FROM ended"):
        if isinstance(body, bytes) and checksums.of_ended(job, body) == checksum:
            new.execute("INSERT INTO ended VALUES (?, ?, ?)", (job, body, checksum))
    for row in db.execute("SELECT key, value FROM meta WHERE key = ?", (identity.KEY,)):
        new.execute("INSERT INTO meta VALUES (?, ?)", row)
    for row in db.execute("SELECT seq, version FROM rules"):
        new.execute("INSERT INTO rules VALUES (?, ?)", row)
    if journal_file.last_event(new).seq < end:
        _go_on_after_snapshot(new)
    journal_file.mark_as_patched(new)
    new.execute("COMMIT")


def _go_on_after_snapshot(new: sqlite3.Connection) -> None:
    """Of what led to the snapshot nothing is there: one event, which holds the place in the count.

    Otherwise the next one would be the first, and nobody would look for it behind the snapshot.
    """
    seq, chain, body = next(journal_file.snapshots(new, ANY))
    assert body is not None, "only sound ones are copied"
    lost = EventsLost()
    what = snapshot.decode(body)[1], type(lost).__name__, event_as_json(lost), actions_as_json([])
    sealed = checksums.chained(chain, seq + 1, *what)
    new.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", (seq + 1, *what, sealed))


def _whole(db: sqlite3.Connection, first: int, end: int) -> bool:
    """Whether all events up to `end` are as they were written."""
    try:
        for row in journal_file.rows(db, first - 1, START if first == 1 else None):
            if row[0] == end:
                return True
    except Broken:
        pass
    return False


def _known(path: Path, db: sqlite3.Connection) -> tuple[int, int]:
    """Starts of the server, and the last event that was written, as far as the note says; without
    one the starts are as many as the journal says."""
    try:
        known = checksums.read(checksums.note_of(path))
    except (OSError, ValueError):
        known = None
    if known is not None:
        return known.epoch, known.expected(checksums.boot()).seq
    try:
        row = db.execute("SELECT value FROM meta WHERE key = 'epoch'").fetchone()
        return int(row[0]) if row is not None else 0, 0
    except READING:
        return 0, 0
