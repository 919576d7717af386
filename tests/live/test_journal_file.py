"""The file of the journal: what a new one says of itself, and who flushes it."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from dq_server.core.model import events as ev
from dq_server.core.model.actions import JobAccepted
from dq_server.live.store import checksums, snapshot, verify_all
from dq_server.live.store import journal as journal_module
from dq_server.live.store.journal import Journal, JournalError, event_as_json, read_entries
from dq_server.live.store.journal_file import SCHEMA, mark_as_patched
from dq_server.live.store.recovery import recovered
from dq_server.sim.errors import WorkloadError
from dq_server.sim.journal import read_journal
from tests.live.journal_lives import History, led_to


def test_a_new_journal_says_which_version_wrote_it_and_another_refuses_it(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    made = Journal(path)
    assert path.stat().st_mode & 0o777 == 0o600, "whatever the umask and SQLite say"
    assert made.meta("schema") == str(SCHEMA)
    made.close()
    Journal(path).close()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE meta SET value = ? WHERE key = 'schema'", (str(SCHEMA + 1),))
    db.close()
    with pytest.raises(JournalError, match=rf"another version \(schema {SCHEMA + 1}\)"):
        Journal(path)


def test_a_file_that_fails_when_it_is_opened_is_no_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(Journal, "_prepare", fails)
    with pytest.raises(JournalError, match=r"cannot be used as the journal \(disk I/O error\)$"):
        Journal(tmp_path / "journal.sqlite")


def test_each_version_that_decides_is_noted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path / "journal.sqlite")
    for version in ("1.0", "1.0", "1.1", "1.1"):
        monkeypatch.setattr(journal_module, "__version__", version)
        journal.next_epoch()
        now = 1.0
        journal.append(now, ev.Tick(), event_as_json(ev.Tick()), [])
        journal.commit()
    assert [version for _, version in journal.rules()][-2:] == ["1.0", "1.1"]
    assert len(journal.rules()) == 2
    journal.close()


def test_what_is_patched_is_so_until_it_is_cleared(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    Journal(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        mark_as_patched(db)
    journal, said = Journal(path), list[bool]()
    said.append(journal.patched)
    journal.clear()
    said.append(journal.patched)
    journal.close()
    again = Journal(path)
    said.append(again.patched)
    again.close()
    assert said == [True, False, False]


def test_what_cannot_be_read_of_an_ended_job_is_said(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    journal = Journal(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("DROP TABLE ended")
    with pytest.raises(JournalError, match="cannot be read"):
        journal.archived(1)
    journal.close()


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


def test_old_events_and_records_are_dropped_once_snapshots_tell_the_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "EVENTS_KEPT", 50)
    monkeypatch.setattr(journal_module, "COMPACTED_MAX", 30)
    monkeypatch.setattr(journal_module, "ENDED_KEPT", 4)
    path = tmp_path / "journal.sqlite"
    history = History(path)
    history.live(3)
    for n in range(1, 13):
        history.live(3)
        history.keep()
        history.journal.archive(n, b"{}")
        history.journal.commit()
    first, last = history.journal.first, history.journal._saved.seq
    assert 1 < first <= last - 50
    assert [entry.seq for entry in history.journal.entries()] == list(range(first, last + 1))
    assert history.journal.archived(1) is None
    assert history.journal.archived(12) == b"{}"
    assert verify_all.examine(path)["problems"] == []
    history.journal.close()
    state = snapshot.encode(history.scheduler, history.now)
    assert led_to(path)[0] == state, "the state and the checksums go on behind what was dropped"
    with closing(sqlite3.connect(path)) as db:
        db.execute("DELETE FROM snapshots")
        db.commit()
    refused = Journal(path)
    with pytest.raises(JournalError, match=f"events before {first} are not kept"):
        recovered(refused)
    refused.close()
    with pytest.raises(WorkloadError, match=f"begins with event {first}"):
        next(read_journal(path))


def test_what_is_kept_of_an_ended_job_comes_back_as_it_was(tmp_path: Path) -> None:
    """Compressed by this version, as it is by 0.1."""
    made = Journal(tmp_path / "journal.sqlite")
    body = b'{"job":{"name":"' + b"x" * 1000 + b'"}}'
    event = ev.NodeLost("n01", "no heartbeat")
    made.append(1.0, event, event_as_json(event), [])
    made.archive(1, body)
    made._db.execute("INSERT INTO ended VALUES (2, ?, ?)", (body, checksums.of_ended(2, body)))
    made.commit()
    assert made.archived(1) == made.archived(2) == body
    (size,) = made._db.execute("SELECT length(body) FROM ended WHERE job = 1").fetchone()
    assert size < 200
    made.close()


def test_a_journal_that_is_closed_is_known_to_be_on_the_disk(tmp_path: Path) -> None:
    """Also what nobody relied on: power that fails after a stop takes nothing."""
    path = tmp_path / "journal.sqlite"
    journal = Journal(path)
    event = ev.Tick()
    journal.append(1.0, event, event_as_json(event), [])
    journal.commit()
    known = checksums.read(checksums.note_of(path))
    assert known is not None and known.flushed.seq == 0
    journal.close()
    known = checksums.read(checksums.note_of(path))
    assert known is not None and known.flushed.seq == known.written.seq == 1


def test_a_journal_whose_log_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    Journal(path).close()
    checksums.note_of(path).chmod(0o000)
    checksums.note_of(path).rename(tmp_path / "aside")
    checksums.note_of(path).mkdir()
    with pytest.raises(JournalError, match="journal"):
        Journal(path)


def test_the_log_is_taken_in_seldom(tmp_path: Path) -> None:
    """Each time flushes all of it, and everybody waits."""
    journal = Journal(tmp_path / "journal.sqlite")
    pages = journal._db.execute("PRAGMA wal_autocheckpoint").fetchone()
    assert pages == (journal_module.WAL_PAGES,)
    journal.close()


def test_a_snapshot_that_is_damaged_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    journal = Journal(tmp_path / "journal.sqlite")
    event = ev.Tick()
    for at in (1.0, 2.0):
        journal.append(at, event, event_as_json(event), [])
        journal.commit()
        journal.save_snapshot(int(at), b"a state")
    journal._db.execute("UPDATE snapshots SET body = ? WHERE seq = 2", (b"a stade",))
    with caplog.at_level("WARNING", "dq.server"):
        assert journal.load_snapshot() == (1, b"a state")
    assert "the snapshot of event 2 is damaged" in caplog.text
    journal.close()
