"""A journal of another cluster, or none where one was, is refused before anything is changed."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dq_client.base import keys
from dq_client.base import messages as m
from dq_client.base.connection import Connection
from dq_client.base.errors import UsageError
from dq_client.base.home import Home, created_s
from dq_server.live.store import backup, home_files, identity, maintenance, verify_all
from dq_server.live.store.journal import Journal

JOURNAL = ("journal.sqlite", "journal.sqlite-wal", "journal.sqlite-shm", "journal.sqlite-last")


def cluster(root: Path) -> Home:
    """A home in which a server has been."""
    home = Home(root)
    home.create()
    identity.require_journal(home)
    keys.ensure(home.keys)
    with closing(Journal(home.journal)) as journal:
        identity.settle(journal, home)
        journal.next_epoch()
    return home


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    yield cluster(tmp_path / "a")


def settle(home: Home) -> str:
    identity.require_journal(home)
    with closing(Journal(home.journal)) as journal:
        return identity.settle(journal, home)


def test_a_cluster_keeps_its_name(home: Home) -> None:
    name = home.cluster()
    assert len(name) == 16
    assert settle(home) == settle(home) == name
    assert home.cluster_file.stat().st_mode & 0o777 == 0o600


def test_a_journal_of_another_cluster_is_refused(home: Home, tmp_path: Path) -> None:
    other = cluster(tmp_path / "b")
    for name in JOURNAL:
        if (other.root / name).exists():
            shutil.copy(other.root / name, home.root / name)
    with pytest.raises(UsageError, match="is the journal of another cluster") as e:
        settle(home)
    assert other.cluster() in str(e.value) and home.cluster() in str(e.value)
    assert "dq restore FILE" in str(e.value) and "\n" not in str(e.value)
    (problem,) = maintenance._check(home)["problems"]
    assert problem == str(e.value)
    with pytest.raises(UsageError, match="another cluster"):  # nothing was written
        settle(home)


@pytest.mark.parametrize("keeps_name", [True, False])
def test_no_journal_where_one_was_is_refused(home: Home, keeps_name: bool) -> None:
    home.job(1).mkdir(parents=True)
    for name in JOURNAL:
        (home.root / name).unlink(missing_ok=True)
    if not keeps_name:  # of a version that gave none
        home.cluster_file.unlink()
    before = sorted(home.root.rglob("*"))
    with pytest.raises(UsageError, match="is gone, and there was a cluster here") as e:
        identity.require_journal(home)
    assert str(home.root / "jobs") in str(e.value)
    assert (str(home.cluster_file) in str(e.value)) is keeps_name
    assert sorted(home.root.rglob("*")) == before
    (home.root / "jobs").rename(home.root / "old-jobs")
    home.cluster_file.unlink(missing_ok=True)
    identity.require_journal(home)
    assert settle(home)


def test_an_empty_home_and_one_without_jobs_are_new(tmp_path: Path) -> None:
    home = Home(tmp_path / "new")
    home.create()
    identity.require_journal(home)
    keys.ensure(home.keys)  # and then its server was killed
    identity.require_journal(home)
    (home.root / "jobs").mkdir()
    identity.require_journal(home)


@pytest.mark.parametrize("lost", ["the keys'", "the journal's"])
def test_a_name_that_stands_in_one_place_is_taken_over(home: Home, lost: str) -> None:
    name = home.cluster()
    if lost == "the keys'":
        home.cluster_file.unlink()
    else:  # as of a standby's copy, or of an older version
        with closing(Journal(home.journal)) as journal:
            journal._db.execute("DELETE FROM meta WHERE key = 'cluster'")
    assert settle(home) == home.cluster() == name


def test_a_name_that_is_no_file_is_one_line(home: Home) -> None:
    home.cluster_file.unlink()
    home.cluster_file.mkdir()
    with pytest.raises(UsageError, match="cannot be read"):
        home.cluster()


def test_backups_have_the_name(home: Home, tmp_path: Path) -> None:
    name = home.cluster()
    assert home_files.noted(home)["keys/cluster"] == home.cluster_file
    backup.write(home, tmp_path / "backup.dq")
    back = Home(tmp_path / "c")
    back.create()
    backup.restore(back, tmp_path / "backup.dq")
    assert settle(back) == back.cluster() == name


def test_a_mended_journal_keeps_the_name(home: Home, tmp_path: Path) -> None:
    target = tmp_path / "mended.sqlite"
    with closing(sqlite3.connect(home.journal)) as old, closing(sqlite3.connect(target)) as new:
        new.isolation_level = None
        verify_all._copy(old, new, 0, 0)
        found = new.execute("SELECT value FROM meta WHERE key = 'cluster'").fetchone()
    assert found == (home.cluster(),)


def test_a_servers_file_of_another_cluster_is_refused(home: Home, tmp_path: Path) -> None:
    me = {
        "pid": 1,
        "create_time": created_s(1),
        "address": "tcp://127.0.0.1:1",
        "protocol": m.PROTOCOL,
    }
    home.server_file.write_text(json.dumps(me | {"cluster": "0" * 16}))
    with pytest.raises(UsageError, match=r"server\.json names the server of another cluster"):
        Connection.to(home)
