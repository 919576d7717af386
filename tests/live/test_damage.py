"""Damage to a journal is noticed, or it is harmless: the state is the same.

Bits are flipped at random places of the files that a killed or a stopped server leaves: the
database with events and snapshots, its write-ahead log, and the note of how far it went.
"""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from dq_server.core.model import events as ev
from dq_server.core.model.actions import JobAccepted
from dq_server.live.store import checksums
from dq_server.live.store.journal import Journal, JournalError, event_as_json
from tests.live.journal_lives import ENDS, IMAGES, History, closed, copied, just_written, led_to

pytestmark = pytest.mark.full

FLIPS = 334  # of each image: 1,002 in all


def flip(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


@pytest.mark.parametrize("image", IMAGES, ids=lambda image: image.__name__)
def test_a_flipped_bit_is_noticed_or_changes_nothing(
    image: Callable[[Path], Path], tmp_path: Path
) -> None:
    rng = random.Random(image.__name__)
    found = image(tmp_path)
    expected = led_to(copied(found, tmp_path / "sound"))
    seen: Counter[str] = Counter()
    files = [f"{found.name}{end}" for end in ENDS if Path(f"{found}{end}").exists()]
    for n in range(FLIPS):
        path = copied(found, tmp_path / "damaged")
        name = files[n % len(files)]
        flip(path.parent / name, rng)
        try:
            assert led_to(path) == expected, f"flip {n} of {image.__name__}, in {name}"
        except JournalError as e:
            assert "\n" not in str(e)
            seen[f"{name} noticed"] += 1
        else:
            seen[f"{name} harmless"] += 1
    assert seen[f"{found.name} harmless"], "unused bytes, and what snapshots make superfluous"
    assert not seen[f"{found.name}-last harmless"]
    assert not seen[f"{found.name}-wal harmless"]
    assert seen.total() == FLIPS


def test_every_flip_in_an_entry_of_the_log_is_noticed(tmp_path: Path) -> None:
    """SQLite drops the tail from there on, in silence: what is missing is known by the note."""
    found = just_written(tmp_path)
    rng = random.Random(19)
    for _ in range(50):
        path = copied(found, tmp_path / "damaged")
        flip(Path(f"{path}-wal"), rng)
        with pytest.raises(JournalError, match=r"all is well up to event \d+, \d+ were written;"):
            led_to(path)


LOST: dict[str, Callable[[Path], object]] = {
    "the file": lambda path: path.unlink(),
    "its content": lambda path: path.write_bytes(b""),
    "the log": lambda path: Path(f"{path}-wal").unlink(),
    "the log's content": lambda path: Path(f"{path}-wal").write_bytes(b""),
    "the note": lambda path: Path(f"{path}-last").unlink(),
}


@pytest.mark.parametrize("lost", LOST.values(), ids=LOST)
def test_a_lost_file_is_noticed_and_the_others_are_left_as_they_are(
    lost: Callable[[Path], object], tmp_path: Path
) -> None:
    path = copied(just_written(tmp_path), tmp_path / "damaged")
    lost(path)
    before = {p.name: p.read_bytes() for p in path.parent.iterdir()}
    with pytest.raises(JournalError, match=r"dq restore FILE") as refused:
        Journal(path)
    assert "\n" not in str(refused.value)
    after = {p.name: p.read_bytes() for p in path.parent.iterdir() if p.suffix != ".sqlite-shm"}
    for name, content in before.items():
        assert after[name] == content


def test_an_older_copy_of_the_file_is_noticed(tmp_path: Path) -> None:
    """A write that the disk has lost: everything in the file is sound, and it is not the last."""
    history = History(tmp_path / "journal.sqlite")
    history.live(2)
    history.journal.close()
    older = (tmp_path / "journal.sqlite").read_bytes()
    history.journal = Journal(tmp_path / "journal.sqlite")
    history.happen(ev.NodeJoined("n9", 4))
    history.journal.close()
    (tmp_path / "journal.sqlite").write_bytes(older)
    with pytest.raises(JournalError, match=r"it ends with event (\d+)\): all is well up to"):
        Journal(tmp_path / "journal.sqlite")


def test_events_exchanged_for_others_are_noticed(tmp_path: Path) -> None:
    """Two events that are sound by themselves, in the wrong order."""
    path = closed(tmp_path)
    db = sqlite3.connect(path)
    db.execute("DELETE FROM snapshots")
    db.execute("UPDATE events SET seq = -1 WHERE seq = 3")
    db.execute("UPDATE events SET seq = 3 WHERE seq = 4")
    db.execute("UPDATE events SET seq = 4 WHERE seq = -1")
    db.commit()
    db.close()
    with pytest.raises(JournalError, match=r"event 3 is not as it was written\): .* event 2;"):
        led_to(path)


def test_the_first_event_is_as_it_was_written_or_it_is_noticed(tmp_path: Path) -> None:
    """No event before it says what it follows."""
    path = closed(tmp_path)
    db = sqlite3.connect(path)
    db.execute("DELETE FROM snapshots")
    db.execute("UPDATE events SET time = time + 1 WHERE seq = 1")
    db.commit()
    db.close()
    with pytest.raises(JournalError, match="event 1 is not as it was written"):
        led_to(path)


def test_what_is_kept_of_an_ended_job_is_not_told_if_it_is_damaged(tmp_path: Path) -> None:
    path = closed(tmp_path)
    db = sqlite3.connect(path)
    (job,) = db.execute("SELECT min(job) FROM ended").fetchone()
    db.execute("UPDATE ended SET body = x'00' WHERE job = ?", (job,))
    db.commit()
    db.close()
    journal = Journal(path)
    with pytest.raises(JournalError, match=f"the record of job {job} is damaged"):
        journal.archived(job)
    journal.close()


def test_after_a_power_failure_only_what_was_flushed_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was committed without a flush may go with the machine, not with the process."""
    journal = Journal(tmp_path / "journal.sqlite")
    event = ev.NodeLost("n01", "no heartbeat")
    journal.append(1.0, event, event_as_json(event), [JobAccepted(1)])
    journal.commit()
    before = copied(journal.path, tmp_path / "before")
    tick = ev.Tick()
    journal.append(2.0, tick, event_as_json(tick), [])  # nobody relies on it
    journal.commit()
    note = checksums.note_of(journal.path).read_bytes()
    journal.close()
    checksums.note_of(before).write_bytes(note)
    with pytest.raises(JournalError, match="all is well up to event 1, 2 were written"):
        Journal(copied(before, tmp_path / "same start"))
    monkeypatch.setattr(checksums, "boot", lambda: "another start of the machine")
    again = Journal(before)
    assert [entry.seq for entry in again.entries()] == [1]
    again.close()


def test_a_note_that_is_cut_short_or_of_another_hand_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "note"
    assert checksums.read(path) is None
    mark = checksums.JournalPosition(7, bytes(range(16)))
    note = checksums.ChecksumFile(path, checksums.Known(mark, mark, 3))
    note.close()
    assert checksums.read(path) == checksums.Known(mark, mark, 3, checksums.boot())
    line = path.read_bytes()
    for wrong in (b"", line[:-1], line + b"\n", line.replace(b"to 7", b"to 8", 1)):
        path.write_bytes(wrong)
        with pytest.raises(ValueError, match=r"it is no line|its checksum"):
            checksums.read(path)
