"""The file of the journal: what a new one says of itself, and who flushes it."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from dq_server.core.model import events as ev
from dq_server.core.model.actions import JobAccepted
from dq_server.live.journal import Journal, JournalError, event_as_json, read_entries
from dq_server.live.journal_file import SCHEMA


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


def test_a_disk_that_fails_to_flush_stops_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch is written, perhaps not for good: neither yes nor no would be honest."""

    def fails(_: int) -> None:
        raise OSError(5, "Input/output error")

    journal = Journal(tmp_path / "journal.sqlite")
    event = ev.NodeLost("n01", "no heartbeat")
    journal.append(1.0, event, event_as_json(event), [JobAccepted(1)])
    monkeypatch.setattr(os, "fdatasync", fails)
    with pytest.raises(
        SystemExit, match=r"the disk fails .*Input/output error.*: the server stops"
    ):
        journal.commit()
    journal.close()


def test_all_entries_are_read_from_the_first_on_or_the_file_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    journal = Journal(path)
    event = ev.NodeLost("n01", "no heartbeat")
    for time in (1.0, 2.0, 3.0):
        journal.append(time, event, event_as_json(event), [])
    journal.commit()
    assert [entry.time for entry in journal.entries()] == [1.0, 2.0, 3.0]
    assert [entry.seq for entry in journal.entries(after=2)] == [3]
    journal.close()
    with closing(sqlite3.connect(path)) as db:
        assert [entry.time for entry in read_entries(db, path)] == [1.0, 2.0, 3.0]
        db.execute("UPDATE events SET body = CAST(x'ff' AS TEXT) WHERE seq = 2")  # no UTF-8
        with pytest.raises(JournalError, match=r"is damaged .*: all is well up to event 1;"):
            list(read_entries(db, path))


def test_a_start_that_cannot_be_counted_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two starts of one number would number the sessions of agents alike."""

    def fails(_: int) -> None:
        raise OSError(28, "No space left on device")

    journal = Journal(tmp_path / "journal.sqlite")
    assert [journal.next_epoch(), journal.next_epoch()] == [1, 2]
    monkeypatch.setattr(os, "fdatasync", fails)
    with pytest.raises(JournalError, match=r"cannot be written .*No space left"):
        journal.next_epoch()
    journal.close()
