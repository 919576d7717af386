"""The file of the journal: what a new one says of itself, and who flushes it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from dq_server.live.journal import SCHEMA, Journal, JournalError


def test_a_new_journal_says_which_version_wrote_it_and_another_refuses_it(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    made = Journal(path)
    assert made.meta("schema") == str(SCHEMA)
    made.close()
    Journal(path).close()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE meta SET value = ? WHERE key = 'schema'", (str(SCHEMA + 1),))
    db.close()
    with pytest.raises(JournalError, match=rf"another version \(schema {SCHEMA + 1}\)"):
        Journal(path)


def test_sqlite_flushes_no_commit_by_itself(tmp_path: Path) -> None:
    """Most batches need no flush, and those that do are flushed by the journal."""
    journal = Journal(tmp_path / "journal.sqlite")
    normal = 1
    assert journal._db.execute("PRAGMA synchronous").fetchone() == (normal,)
    journal.close()
