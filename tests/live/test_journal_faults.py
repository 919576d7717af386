"""A journal whose file or disk fails in one place: what is said, and what is known afterwards."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dq_client.base import storage
from dq_server.core.model import events as ev
from dq_server.core.model.actions import JobAccepted
from dq_server.live.store import checksums
from dq_server.live.store import journal as journal_module
from dq_server.live.store.journal import Journal, JournalError, event_as_json


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    made = Journal(tmp_path / "journal.sqlite")
    yield made
    made.close()


class Failing:
    """A database that fails at the statements that begin with certain words."""

    def __init__(self, db: sqlite3.Connection, *words: str) -> None:
        self.db, self.words = db, words

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        if statement.startswith(self.words):
            raise sqlite3.OperationalError("disk I/O error")
        return self.db.execute(statement, *values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.db, name)


def fail(journal: Journal, *words: str) -> None:
    journal._db = Failing(journal._db, *words)  # type: ignore[assignment]


def works(journal: Journal) -> None:
    db = journal._db
    assert isinstance(db, Failing)
    journal._db = db.db


def add(journal: Journal, *actions: Any) -> None:
    journal.append(1.0, ev.Tick(), event_as_json(ev.Tick()), list(actions))


def forgets_and_goes_on(journal: Journal) -> None:
    with pytest.raises(JournalError, match="cannot be written"):
        journal.commit()
    journal.rollback()
    add(journal)
    journal.commit()
    assert [entry.seq for entry in journal.entries()] == [1]


@pytest.mark.parametrize("word", ["BEGIN", "INSERT INTO events"])
def test_an_event_that_cannot_be_added_is_said_and_nothing_joins_its_batch(
    journal: Journal, word: str
) -> None:
    fail(journal, word)
    with pytest.raises(JournalError, match="cannot be written"):
        add(journal)
    works(journal)
    with pytest.raises(JournalError, match="cannot be written"):
        add(journal)
    with pytest.raises(JournalError, match="cannot be written"):
        journal.archive(1, b"{}")
    forgets_and_goes_on(journal)


def test_an_ended_job_that_cannot_be_archived_is_said(journal: Journal) -> None:
    add(journal)
    fail(journal, "INSERT OR REPLACE INTO ended")
    with pytest.raises(JournalError, match="cannot be written"):
        journal.archive(1, b"{}")
    works(journal)
    with pytest.raises(JournalError, match="cannot be written"):
        journal.commit()
    journal.rollback()
    assert list(journal.entries()) == []


def test_a_batch_that_cannot_be_committed_is_said_and_forgotten(journal: Journal) -> None:
    add(journal)
    fail(journal, "COMMIT")
    with pytest.raises(JournalError, match="cannot be written"):
        journal.commit()
    works(journal)
    forgets_and_goes_on(journal)


def test_a_batch_that_cannot_be_undone_is_said(journal: Journal) -> None:
    add(journal)
    fail(journal, "ROLLBACK")
    with pytest.raises(JournalError, match="cannot be read"):
        journal.rollback()
    works(journal)
    journal.rollback()


def test_a_note_that_cannot_be_written_is_said(journal: Journal) -> None:
    fail(journal, "INSERT OR REPLACE INTO meta")
    with pytest.raises(JournalError, match="cannot be written"):
        journal.note("key", "value")
    assert "cannot be written" in journal.fault()
    works(journal)
    assert (journal.noted("key"), journal.fault()) == ("", "")


def test_a_disk_that_is_full_is_a_fault_before_anything_is_tried(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "fault", lambda _: "the disk is full")
    assert journal.fault() == "the disk is full"


@pytest.fixture
def complaints(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is said, however often it was said before."""
    said = list[str]()
    monkeypatch.setattr(journal_module.complaints, "warning", lambda text, *_: said.append(text))
    return said


def test_that_it_is_patched_no_more_cannot_be_written(
    journal: Journal, complaints: list[str]
) -> None:
    journal.patched = True
    fail(journal, "DELETE FROM meta")
    journal.clear()
    assert not journal.patched
    assert complaints == ["%s cannot be written: %s"]
    works(journal)


def flushes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The descriptors that are flushed from now on."""
    seen, flush = list[int](), os.fdatasync

    def noted(fd: int) -> None:
        seen.append(fd)
        flush(fd)

    monkeypatch.setattr(os, "fdatasync", noted)
    return seen


def test_a_note_reaches_the_disk_at_once_or_with_the_batch(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = flushes(monkeypatch)
    journal.note("key", "1")
    assert (seen, journal.noted("key"), journal.noted("other")) == ([journal._wal], "1", "")
    add(journal)
    journal.note("key", "2")
    assert len(seen) == 1
    journal.commit()
    assert journal._wal in seen[1:], "a tick alone would not be flushed"


def test_what_was_not_flushed_is_when_the_journal_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was committed by a server that was killed: the next one tells of it."""
    path = tmp_path / "journal.sqlite"
    first = Journal(path)
    add(first)
    first.commit()
    os.close(first._wal)
    first._wal = -1
    seen = flushes(monkeypatch)
    again = Journal(path)
    assert again._wal in seen
    assert [entry.seq for entry in again.entries()] == [1]
    again.close()
    first._db.close()


def test_a_start_is_counted_outside_of_the_journal_too(tmp_path: Path) -> None:
    """An older copy of the file, or a mended one, knows less: its next start is a new one still."""
    path = tmp_path / "journal.sqlite"
    first = Journal(path)
    assert [first.next_epoch() for _ in range(3)] == [1, 2, 3]
    assert first.next_epoch(10) == 10
    first.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("UPDATE meta SET value = '2' WHERE key = 'epoch'")
    again = Journal(path)
    assert again.next_epoch() == 11
    again.close()


def test_a_batch_is_safe_though_the_note_of_it_cannot_be_written(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, complaints: list[str]
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(checksums.ChecksumFile, "committed", fails)
    add(journal, JobAccepted(1))
    journal.commit()
    assert [entry.seq for entry in journal.entries()] == [1]
    assert complaints == ["%s cannot be written: %s"]
    monkeypatch.undo()


def test_a_snapshot_knows_the_event_that_it_follows(journal: Journal) -> None:
    for _ in range(3):
        add(journal)
    journal.commit()
    journal.save_snapshot(2, b"state")
    (chain,) = journal._db.execute("SELECT chain FROM snapshots").fetchone()
    assert chain == journal.chain_of(2) not in (None, b"")
    assert journal.newest_snapshot() == 2
    assert journal.load_snapshot() == (2, b"state")
    assert [entry.seq for entry in journal.entries(after=2)] == [3]
    assert journal.chain_of(3) == journal._last.chain


def test_a_snapshot_for_which_there_is_no_room_is_said(journal: Journal) -> None:
    fail(journal, "INSERT OR REPLACE INTO snapshots")
    with pytest.raises(JournalError, match="no room for a snapshot"):
        journal.save_snapshot(1, b"state")
    works(journal)
