"""`dq backup`, `dq restore`, `dq server check`: whole or not at all; damage is said."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dq_client.base import keys
from dq_client.base.home import Home
from dq_server.core.model import events as ev
from dq_server.live.store import checksums
from dq_server.live.store.journal import Journal, JournalError
from harness.commands import HANG_S
from harness.live import Live
from tests.live.journal_lives import ENDS, History, copied, just_written, led_to, with_snapshots

pytestmark = pytest.mark.full


def dq(home: Home, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dq_client.cli.main", *words],
        env={**os.environ, "DQ_HOME": str(home.root)},
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )


def made(root: Path, image: Callable[[Path], Path] = with_snapshots) -> Home:
    """A home with the journal of a server that was killed."""
    home = Home(root)
    home.create()
    keys.ensure(home.keys)
    found = image(root.parent)
    for end in ENDS:
        if Path(f"{found}{end}").exists():
            shutil.copy(f"{found}{end}", f"{home.journal}{end}")
    return home


def content(home: Home) -> dict[str, bytes]:
    """All files but what SQLite makes for readers: an index, and a log that is empty."""
    files = [p for p in home.root.rglob("*") if p.is_file() and p.suffix != ".lock"]
    files = [p for p in files if p.stat().st_size or not p.name.endswith("-wal")]
    return {
        str(p.relative_to(home.root)): p.read_bytes() for p in files if not p.name.endswith("-shm")
    }


def state_of(home: Home, root: Path) -> Any:
    return led_to(copied(home.journal, root / "looked at"))


def test_a_backup_restores_into_an_empty_home_what_was_there(tmp_path: Path) -> None:
    home = made(tmp_path / "home")
    before = content(home)
    file = tmp_path / "b.dq"
    done = dq(home, "backup", str(file), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["schema"] == 1
    assert content(home) == before
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    other = Home(tmp_path / "other")
    restored = dq(other, "restore", str(file), "--json")
    assert restored.returncode == 0, restored.stderr
    assert json.loads(restored.stdout)["events"] == json.loads(done.stdout)["events"]
    assert json.loads(restored.stdout)["replaced"] is None
    assert state_of(other, tmp_path) == state_of(home, tmp_path)
    assert keys.load(other.keys, "server") == keys.load(home.keys, "server")
    checked = dq(other, "server", "check")
    assert checked.returncode == 0, checked.stderr
    assert "all is well" in checked.stdout


def test_a_backup_replaces_no_file(tmp_path: Path) -> None:
    home = made(tmp_path / "home")
    file = tmp_path / "there"
    file.write_text("mine")
    done = dq(home, "backup", str(file))
    assert done.returncode == 2
    assert f"{file} is there already" in done.stderr
    assert file.read_text() == "mine"
    nowhere = dq(home, "backup", str(tmp_path / "no" / "folder"))
    assert nowhere.returncode == 1
    assert "cannot be written" in nowhere.stderr
    assert dq(Home(tmp_path / "empty"), "backup", str(tmp_path / "b")).returncode == 5


def test_a_damaged_journal_is_not_backed_up(tmp_path: Path) -> None:
    home = made(tmp_path / "home", just_written)
    log = Path(f"{home.journal}-wal")
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 4
    log.write_bytes(data)
    done = dq(home, "backup", str(tmp_path / "b"))
    assert done.returncode == 1
    assert "not backed up" in done.stderr
    assert not (tmp_path / "b").exists()


def test_a_damaged_backup_is_refused_and_nothing_is_changed(tmp_path: Path) -> None:
    """Any flipped bit of it: noticed, or of no meaning (the padding between files)."""
    from dq_client.base.errors import DQError
    from dq_server.live.store import backup

    home = made(tmp_path / "home")
    whole = tmp_path / "whole"
    backup.write(home, whole)
    expected = state_of(home, tmp_path)
    rng, seen = random.Random(19), Counter[str]()
    other = made(tmp_path / "other")
    before = content(other)
    for _ in range(150):
        data = bytearray(whole.read_bytes())
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        file = tmp_path / "flipped"
        file.write_bytes(data)
        try:
            done = backup.restore(other, file)
        except DQError as e:
            assert "not restored" in str(e)
            assert content(other) == before
            seen["noticed"] += 1
        else:
            seen["harmless"] += 1
            assert state_of(other, tmp_path) == expected
            shutil.rmtree(done["replaced"])
            before = content(other)
    assert seen["noticed"] > 100
    for wrong in (b"", whole.read_bytes()[:5000], b"text" * 1000):
        file.write_bytes(wrong)
        with pytest.raises(DQError, match="not restored"):
            backup.restore(other, file)
        assert content(other) == before


def test_what_a_restore_replaces_is_kept_and_the_next_server_is_newer(tmp_path: Path) -> None:
    home = made(tmp_path / "home")
    file = tmp_path / "b"
    assert dq(home, "backup", str(file)).returncode == 0
    journal = Journal(home.journal)
    for _ in range(7):
        last = journal.next_epoch()
    journal.close()
    damaged = bytearray(home.journal.read_bytes())
    damaged[100:200] = bytes(100)
    home.journal.write_bytes(damaged)
    done = dq(home, "restore", str(file), "--json")
    assert done.returncode == 0, done.stderr
    aside = Path(json.loads(done.stdout)["replaced"])
    assert (aside / "journal.sqlite").read_bytes() == damaged
    assert (aside / "keys").is_dir()
    journal = Journal(home.journal)
    assert journal.next_epoch() > last, "agents obey no older server than they have met"
    journal.close()


def test_check_says_what_is_wrong_and_changes_nothing(tmp_path: Path) -> None:
    home = made(tmp_path / "home")
    assert dq(home, "server", "check").returncode == 0
    db = sqlite3.connect(home.journal)
    db.execute("UPDATE events SET body = replace(body, '\"processors\":4', '\"processors\":3')"
               " WHERE seq = 2")  # fmt: skip
    db.execute("UPDATE ended SET body = x'00' WHERE job = (SELECT min(job) FROM ended)")
    db.commit()
    db.close()
    before = content(home)
    done = dq(home, "server", "check", "--json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert found["schema"] == 1
    assert any("event 2 is not as it was written" in line for line in found["problems"])
    assert any("ended job" in line for line in found["problems"])
    assert found["events"]["sound_to"] == found["events"]["last"], "a snapshot makes it superfluous"
    assert content(home) == before
    assert dq(Home(tmp_path / "empty"), "server", "check").returncode == 5


def test_mending_goes_on_with_what_is_sound(tmp_path: Path) -> None:
    home = made(tmp_path / "home", just_written)
    log = Path(f"{home.journal}-wal")
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 4
    log.write_bytes(data)
    with pytest.raises(JournalError, match=r"dq server check --mend") as refused:
        Journal(home.journal)
    checked = dq(home, "server", "check")
    assert checked.returncode == 1
    assert "were written" in checked.stderr
    done = dq(home, "server", "check", "--mend", "--json")
    assert done.returncode == 0, done.stderr
    mended = json.loads(done.stdout)
    assert 0 < mended["sound_to"] < mended["written"]
    assert f"up to event {mended['sound_to']}, {mended['written']} were" in str(refused.value)
    assert (Path(mended["replaced"]) / "journal.sqlite-wal").read_bytes() == data
    journal = Journal(home.journal)
    assert [entry.seq for entry in journal.entries()] == list(range(1, mended["sound_to"] + 1))
    journal.close()
    assert dq(home, "server", "check").returncode == 0


@pytest.mark.parametrize(
    "damage",
    [
        "body = '{}' WHERE seq = 2",
        "sum = zeroblob(16) WHERE seq = (SELECT max(seq) FROM snapshots)",
    ],
)
def test_mending_keeps_a_state_whose_history_is_damaged(tmp_path: Path, damage: str) -> None:
    """An old event is damaged: the snapshot behind it is the state, the history before it goes."""
    home = made(tmp_path / "home")
    expected = state_of(home, tmp_path)
    db = sqlite3.connect(home.journal)
    db.execute(f"UPDATE events SET {damage}")
    db.commit()
    db.close()
    assert dq(home, "server", "check", "--mend").returncode == 0
    assert dq(home, "server", "check").returncode == 0
    journal = Journal(home.journal)
    assert journal.first > 2
    assert next(iter(journal.entries())).seq == journal.first
    journal.close()
    assert state_of(home, tmp_path) == expected


def test_a_lost_note_is_mended_too(tmp_path: Path) -> None:
    home = made(tmp_path / "home")
    expected = state_of(home, tmp_path)
    checksums.note_of(home.journal).unlink()
    with pytest.raises(JournalError, match="is missing"):
        Journal(home.journal)
    assert dq(home, "server", "check", "--mend").returncode == 0
    assert state_of(home, tmp_path) == expected


def test_events_go_on_in_the_backup_of_a_writer(tmp_path: Path) -> None:
    """Between two commits, whatever the writer does meanwhile."""
    home = Home(tmp_path / "home")
    home.create()
    keys.ensure(home.keys)
    history = History(home.journal)
    history.live(3)
    for n in range(3):
        assert dq(home, "backup", str(tmp_path / f"b{n}")).returncode == 0
        history.happen(ev.NodeJoined(f"m{n}", 2))
        assert dq(home, "server", "check").returncode == 0
    history.journal.close()


@pytest.mark.live
def test_a_running_cluster_is_backed_up_checked_and_restored(live: Live, tmp_path: Path) -> None:
    live.up(2)
    done = live.submit("--", "true")
    live.wait_end(done)
    queued = live.submit("--hold", "--", "true")
    file = tmp_path / "backup"
    assert dq(live.home, "backup", str(file)).returncode == 0
    assert dq(live.home, "server", "check").returncode == 0
    refused = dq(live.home, "restore", str(file))
    assert refused.returncode == 4
    assert "a server is running" in refused.stderr
    assert dq(live.home, "server", "check", "--mend").returncode == 4
    dq(live.home, "submit", "--hold", "--", "true")
    assert dq(live.home, "server", "stop").returncode == 0
    assert dq(live.home, "restore", str(file)).returncode == 0
    assert dq(live.home, "server", "start", "--detach").returncode == 0
    jobs = json.loads(dq(live.home, "jobs", "--json").stdout)["jobs"]
    assert {job["id"]: job["state"] for job in jobs} == {done: "done", queued: "held"}
    dq(live.home, "release", str(queued))
    assert live.wait_end(queued)["state"] == "done"
