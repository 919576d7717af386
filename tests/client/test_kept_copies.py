"""Copies in memory that an agent looks after: noted, listed, saved, removed."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dq_client.base import messages as m
from dq_client.base.home import Home
from dq_client.base.private import make_private
from dq_client.node.agent import copies
from dq_client.node.agent.copies import CopyKeeper, clear

HOST = "n01"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    made.create()
    return made


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    return tmp_path / "memory"


def keeper(home: Home, told: dict[int, str] | None = None) -> CopyKeeper:
    tell = (told if told is not None else {}).__setitem__
    return CopyKeeper(home, [HOST], home.agent("a") / copies.NOTES, tell)


def environment(memory: Path, job: int) -> dict[str, str]:
    return {"DQ_PROTECT_MEMORY": str(memory / f"dq-{job}"), "DQ_PROTECT_DIR": ""}


def copy(memory: Path, job: int) -> Path:
    """What the ranks of a job make."""
    memory.mkdir(mode=0o700, exist_ok=True)
    folder = make_private(memory / f"dq-{job}" / HOST / str(job) / "1.1", below=memory)
    (folder / "part-00000").write_bytes(b"data")
    return folder


def until(what: object, limit_s: float = 60.0) -> None:
    assert callable(what)
    end_s = time.monotonic() + limit_s
    while not what():
        assert time.monotonic() < end_s
        time.sleep(0.01)


def test_a_job_is_listed_from_its_start_until_its_copies_are_gone(home: Home, memory: Path) -> None:
    one = keeper(home)
    one.expect(7, environment(memory, 7))
    one.expect(8, {"PATH": "/bin"})
    assert one.held() == [m.CopiesHeld(7, in_memory=False)]
    made = copy(memory, 7)
    assert keeper(home).held() == [m.CopiesHeld(7, in_memory=True)], "the next agent knows it, too"
    one.forget(7, m.CopyPlaces())
    until(lambda: not made.exists() and not keeper(home).held())
    assert one.held() == []
    assert list(memory.iterdir()) == []


def test_nothing_is_removed_while_ranks_may_still_make_copies(home: Home, memory: Path) -> None:
    one = keeper(home)
    one.expect(7, environment(memory, 7))
    made = copy(memory, 7)
    one.forget(7, m.CopyPlaces(), here=True)
    assert made.exists()
    assert one.held() == [m.CopiesHeld(7, in_memory=True)], "so it is said again"
    one.leave()  # or nobody says it again
    until(lambda: not made.exists())
    one.leave()


def test_a_note_that_no_disk_takes_is_written_later(home: Home, memory: Path) -> None:
    one, notes = keeper(home), home.agent("a") / copies.NOTES
    with pytest.MonkeyPatch.context() as patch:
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        patch.setattr(copies, "write_private", lambda *_: (_ for _ in ()).throw(full))
        one.expect(7, environment(memory, 7))
        assert one.held() == [m.CopiesHeld(7, in_memory=False)]
    assert not (notes / "7").exists()
    one.held()
    assert (notes / "7").exists()


def test_what_is_saved_is_not_in_memory_any_more(home: Home, memory: Path) -> None:
    one = keeper(home)
    env = environment(memory, 7)
    one.expect(7, env)
    copy(memory, 7)
    places = m.CopyPlaces(env["DQ_PROTECT_MEMORY"])
    until(lambda: one.save(7, 1, places))
    assert one.held() == [m.CopiesHeld(7, in_memory=False)]
    assert (home.job(7) / "copies/1.1/part-00000").read_bytes() == b"data"
    one.forget(7, places)
    until(lambda: not (home.job(7) / "copies").exists())


def test_a_disk_that_fails_is_tried_again(
    home: Home, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: dict[int, str] = {}
    one, right, full = keeper(home, told), copies.save_file, [True]
    monkeypatch.setattr(copies, "AGAIN_S", 0.0)

    def save(source: Path, target: Path) -> None:
        if full[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))
        right(source, target)

    monkeypatch.setattr(copies, "save_file", save)
    made, places = copy(memory, 7), m.CopyPlaces(str(memory / "dq-7"))
    until(lambda: one.save(7, 1, places) or told)
    assert "No space left" in told[7]
    assert (made / "part-00000").exists(), "nothing is lost for a full disk"
    full[0] = False
    until(lambda: one.save(7, 1, places))
    assert told[7] == ""
    assert (home.job(7) / "copies/1.1/part-00000").exists()


def test_a_file_that_no_disk_will_ever_take_does_not_keep_the_others(
    home: Home, memory: Path
) -> None:
    made = copy(memory, 7)
    (made / "part-00001").symlink_to("/etc/passwd")
    until(lambda: keeper(home).save(7, 1, m.CopyPlaces(str(memory / "dq-7"))) or not made.exists())
    until(lambda: (home.job(7) / "copies/1.1/part-00000").exists())
    assert not (home.job(7) / "copies/1.1/part-00001").exists()


def test_what_a_cluster_that_is_down_has_in_memory_is_saved(home: Home, memory: Path) -> None:
    one = keeper(home)
    for job in (7, 8):
        one.expect(job, environment(memory, job))
        copy(memory, job)
    assert clear(home) == []
    assert list(memory.iterdir()) == []
    assert (home.job(8) / "copies/1.1/part-00000").exists()
    assert keeper(home).held() == [m.CopiesHeld(7, False), m.CopiesHeld(8, False)]


def test_what_cannot_be_saved_then_stays_and_is_named(home: Home, memory: Path) -> None:
    one = keeper(home)
    one.expect(7, environment(memory, 7))
    made = copy(memory, 7)
    with pytest.MonkeyPatch.context() as patch:
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        patch.setattr(copies, "save_file", lambda *_: (_ for _ in ()).throw(full))
        (error,) = clear(home)
    assert "copies of job 7 stay in" in error
    assert "No space left" in error
    assert made.exists()


@pytest.fixture(autouse=True)
def no_damaged_note_stops_an_agent(home: Home) -> Iterator[None]:
    notes = home.agent("a") / copies.NOTES
    notes.mkdir(parents=True)
    (notes / "99").write_text("{")
    yield
    assert 99 not in copies.read_notes(notes)


def test_what_was_saved_of_a_job_that_is_forgotten_is_saved_anew(home: Home, memory: Path) -> None:
    one, places = keeper(home), m.CopyPlaces(str(memory / "dq-7"))
    other = m.CopyPlaces(str(memory / "dq-8"))
    for job, where in ((7, places), (8, other)):
        one.expect(job, environment(memory, job))
        copy(memory, job)
        until(lambda job=job, where=where: one.save(job, 1, where))
    one.forget(7, places)
    until(lambda: 7 not in copies.read_notes(home.agent("a") / copies.NOTES))
    made = copy(memory, 7)
    until(lambda: one.save(7, 1, places))
    assert not made.exists()
    assert one.save(8, 1, other), "what is known of another job stays known"


def test_all_that_is_saved_is_its_owners_alone(home: Home, memory: Path) -> None:
    made = copy(memory, 7)
    (made / "part-00001").write_bytes(b"more")
    (made / ".draft").write_bytes(b"half")
    until(lambda: keeper(home).save(7, 1, m.CopyPlaces(str(memory / "dq-7"))) or not made.exists())
    folder = home.job(7) / "copies" / "1.1"
    until(lambda: len(list(folder.iterdir())) == 2)
    assert {path.name for path in folder.iterdir()} == {"part-00000", "part-00001"}
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_part_that_another_node_has_saved_is_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.fstat(fd).st_size))
    source, target = tmp_path / "source", tmp_path / "saved" / "target"
    source.write_bytes(b"data")
    copies.save_file(source, target)
    before = target.stat().st_ino
    copies.save_file(source, target)
    assert target.stat().st_ino == before
    assert synced == [4], "all of it is safe before it has its name"
    source.write_bytes(b"other data")
    copies.save_file(source, target)
    assert target.read_bytes() == b"other data"
    assert list(target.parent.iterdir()) == [target], "no draft stays"


def test_a_disk_that_fails_is_logged_and_tried_again_after_a_while(
    home: Home, memory: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one, places, tried = keeper(home), m.CopyPlaces(str(memory / "dq-7")), list[Path]()

    def save(source: Path, target: Path) -> None:
        tried.append(target)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))

    monkeypatch.setattr(copies, "save_file", save)
    monkeypatch.setattr(copies, "AGAIN_S", 1000.0)
    copy(memory, 7)
    until(lambda: one.save(7, 1, places) or tried)
    one.finish()
    assert "job 7: its copies in memory cannot be saved: " in caplog.text
    for _ in range(3):
        assert not one.save(7, 1, places)
    one.finish()
    assert len(tried) == 1


def test_what_a_cluster_that_goes_down_saves_is_waited_for(
    home: Home, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, right = keeper(home), copies.save_file

    def slowly(source: Path, target: Path) -> None:
        time.sleep(0.05)
        right(source, target)

    monkeypatch.setattr(copies, "save_file", slowly)
    copy(memory, 7)
    assert not one.save(7, 1, m.CopyPlaces(str(memory / "dq-7")))
    one.finish()
    assert (home.job(7) / "copies/1.1/part-00000").exists()


def test_copies_go_where_the_job_wants_them(home: Home, memory: Path, tmp_path: Path) -> None:
    one, disk = keeper(home), tmp_path / "chosen"
    one.expect(7, environment(memory, 7) | {"DQ_PROTECT_DIR": str(disk)})
    copy(memory, 7)
    until(lambda: one.save(7, 1, m.CopyPlaces(str(memory / "dq-7"), str(disk))))
    assert (disk / "1.1/part-00000").exists()
    one.forget(7, m.CopyPlaces())
    until(lambda: not disk.exists())


def test_notes_of_another_machine_are_left_to_it(
    home: Home, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper(home).expect(7, environment(memory, 7))
    made = copy(memory, 7)
    monkeypatch.setattr(copies, "machine", lambda: "another")
    assert clear(home) == []
    assert made.exists()


def test_folders_of_others_are_neither_saved_nor_removed(home: Home, memory: Path) -> None:
    made = copy(memory, 7)
    made.parent.chmod(0o770)
    until(lambda: keeper(home).save(7, 1, m.CopyPlaces(str(memory / "dq-7"))) or True)
    copies.save_held(made.parent, home.job(7))
    copies.remove_held(made.parent)
    assert made.exists()
    assert not (home.job(7) / "copies").exists()


def test_a_job_without_places_in_memory_has_no_copies_there() -> None:
    assert copies.held_by(7, m.CopyPlaces(), ["n1"]) == []
    found = copies.held_by(7, m.CopyPlaces("/m"), ["n1", "n2"])
    assert found == [Path("/m/n1/7"), Path("/m/n2/7")]
