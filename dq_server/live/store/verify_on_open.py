"""A look at a journal before it is opened to be written: whether it is all there.

Nothing is changed by it, because SQLite would drop and write over what is damaged, and somebody may
want to see that.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from dq_server.live.store import checksums, journal_file
from dq_server.live.store.checksums import JournalPosition, Known
from dq_server.live.store.journal_file import Broken

# Files up to this size are looked through whole at a start, which takes 0.1 s at most.
LOOKED_THROUGH_BYTES = 32 << 20
WHAT_TO_DO = (
    "restore a backup (dq restore FILE), or go on with what is sound (dq server check --mend)"
)


class NotWhole(ValueError):
    """Something of it is damaged or missing: one line with what to do."""


def damaged(path: Path, why: str, sound: int, written: int = 0) -> NotWhole:
    """With the line that says what is damaged, how far all is well, and what to do."""
    why = " ".join(why.replace("*", "").split())  # SQLite's words may be several lines
    beyond = f", {written} were written" if written else ""
    return NotWhole(
        f"{path} is damaged ({why}): all is well up to event {sound}{beyond}; {WHAT_TO_DO}"
    )


def look(path: Path) -> Known:
    """What is known of a journal; NotWhole if it is not all there. Changes nothing."""
    note = checksums.note_of(path)
    try:
        known = checksums.read(note)
    except (OSError, ValueError) as e:
        raise NotWhole(
            f"{note} is damaged ({e}), so {path.name} cannot be verified; {WHAT_TO_DO}"
        ) from e
    expected = JournalPosition() if known is None else known.expected(checksums.boot())
    if not _has_bytes(path):
        if expected.seq or _has_bytes(Path(f"{path}-wal")):
            raise damaged(path, "the file is empty or gone", 0, expected.seq)
        return known or Known()
    try:
        with closing(journal_file.opened_to_read(path)) as db:
            _look_into(db, path, known, expected)
    except sqlite3.Error as e:
        raise NotWhole(f"{path}: cannot be used as the journal ({e}); {WHAT_TO_DO}") from e
    # Of what an earlier start of the machine had written some may be gone, rightly.
    return Known() if known is None else replace(known, written=expected)


def _look_into(
    db: sqlite3.Connection, path: Path, known: Known | None, expected: JournalPosition
) -> None:
    try:
        schema = journal_file.schema_of(db)
    except Broken as e:
        raise damaged(path, str(e), journal_file.sound_to(db), expected.seq) from e
    if schema is not None and schema > journal_file.SCHEMA:
        raise NotWhole(
            f"{path}: written by another version (schema {schema}), this one reads"
            f" {journal_file.SCHEMA}: use that version"
        )
    if schema != journal_file.SCHEMA:
        if expected.seq:
            raise damaged(path, "its events are gone", 0, expected.seq)
        return
    if path.stat().st_size <= LOOKED_THROUGH_BYTES:
        (found,) = db.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise damaged(path, str(found), journal_file.sound_to(db), expected.seq)
    last = journal_file.last_event(db).seq
    if known is None and last:
        raise NotWhole(
            f"{checksums.note_of(path)} is missing, so {path.name} cannot be verified; {WHAT_TO_DO}"
        )
    if last < expected.seq:
        sound = journal_file.sound_to(db)
        raise damaged(path, f"it ends with event {last}", sound, expected.seq)
    if journal_file.sum_of(db, expected.seq) != expected.chain:
        why = f"event {expected.seq} is another one than was written"
        raise damaged(path, why, journal_file.sound_to(db), expected.seq)


def _has_bytes(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False
