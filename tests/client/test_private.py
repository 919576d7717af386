"""Folders that are ours alone: what somebody else has made, or could exchange, is refused."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from dq_client.base import private
from dq_client.base.errors import UsageError
from dq_client.base.home import Home
from dq_client.base.messages import CopyPlaces
from dq_client.node.agent.copies import CopyKeeper

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def public(tmp_path: Path) -> Path:
    """A folder as /tmp and /dev/shm are."""
    folder = tmp_path / "public"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


def test_all_levels_are_private_whatever_the_umask(public: Path) -> None:
    made = private.make_private(public / "a" / "b" / "c", below=public)
    for level in (made, made.parent, made.parent.parent):
        assert stat.S_IMODE(level.stat().st_mode) == 0o700
    private.make_private(made, below=public)
    private.check_private(made, below=public)


@pytest.mark.parametrize("level", ["a", "a/b", "a/b/c"])
@pytest.mark.parametrize("how", ["open", "link", "file"])
def test_a_level_that_is_not_private_is_refused(public: Path, level: str, how: str) -> None:
    (public / level).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for above in list((public / level).parents)[: level.count("/")]:
        above.chmod(0o700)
    if how == "open":
        (public / level).mkdir(mode=0o777)
    elif how == "link":
        (public / "mine").mkdir(mode=0o700)
        (public / level).symlink_to(public / "mine")
    else:
        (public / level).touch()
    says = {"open": "mode 777", "link": "a link", "file": "no folder"}[how]
    for look in (private.make_private, private.check_private):
        with pytest.raises(private.NotPrivate, match=says):
            look(public / "a/b/c", below=public)


@as_root
@pytest.mark.parametrize("level", ["a", "a/b", "a/b/c"])
@pytest.mark.parametrize("mode", [0o700, 0o777])
def test_a_level_of_somebody_else_is_refused(public: Path, level: str, mode: int) -> None:
    private.make_private(public / level, below=public)
    (public / level).chmod(mode)
    os.chown(public / level, NOBODY, NOBODY)
    with pytest.raises(private.NotPrivate, match="somebody else"):
        private.make_private(public / "a/b/c", below=public)


@as_root
def test_a_way_that_a_group_can_exchange_is_refused(public: Path) -> None:
    os.chown(public, -1, NOBODY)
    public.chmod(0o775)
    with pytest.raises(private.NotPrivate, match=f"writable by its group: run chmod g-w {public}"):
        private.make_private(public / "a", below=public)
    public.chmod(0o1775)
    private.make_private(public / "a", below=public)


@pytest.mark.parametrize(
    ("name", "members", "alone"),
    [("me", [], True), ("me", ["me"], True), ("me", ["other"], False), ("staff", [], False)],
)
def test_a_group_that_has_nobody_else_is_no_other(
    monkeypatch: pytest.MonkeyPatch, name: str, members: list[str], alone: bool
) -> None:
    group = grp.struct_group((name, "x", 12345, members))
    user = pwd.struct_passwd(("me", "x", 1, 1, "", "/", "/bin/sh"))
    monkeypatch.setattr(grp, "getgrgid", lambda _: group)
    monkeypatch.setattr(pwd, "getpwuid", lambda _: user)
    assert private._is_ours_alone(12345) is alone


def test_a_way_that_others_can_exchange_is_refused(public: Path) -> None:
    public.chmod(0o777)  # without the sticky bit everybody may rename what lies there
    with pytest.raises(private.NotPrivate, match="sticky"):
        private.make_private(public / "a", below=public)
    assert not (public / "a").exists()


@as_root
def test_a_way_through_the_folder_or_link_of_somebody_else_is_refused(public: Path) -> None:
    (public / "theirs").mkdir(mode=0o755)
    os.chown(public / "theirs", NOBODY, NOBODY)
    (public / "theirs" / "ours").mkdir(mode=0o700)
    (public / "ours").mkdir(mode=0o700)
    (public / "link").symlink_to(public / "ours")
    os.lchown(public / "link", NOBODY, NOBODY)
    for below in (public / "theirs" / "ours", public / "link"):
        with pytest.raises(private.NotPrivate, match="somebody else"):
            private.make_private(below / "a", below=below)


# --- a home --------------------------------------------------------------------------------------


def test_a_home_may_be_reached_by_a_link_of_ours(public: Path) -> None:
    (public / "disk").mkdir(mode=0o700)
    (public / "home").symlink_to(public / "disk")
    Home(public / "home").create()


@as_root
@pytest.mark.parametrize("how", ["folder", "link"])
def test_a_home_that_somebody_else_has_made_is_refused(public: Path, how: str) -> None:
    (public / "made").mkdir(mode=0o700)
    os.chown(public / "made", NOBODY, NOBODY)
    if how == "link":
        (public / "home").symlink_to(public / "made")
        os.lchown(public / "home", NOBODY, NOBODY)
    home = Home(public / ("made" if how == "folder" else "home"))
    with pytest.raises(UsageError, match="belongs to somebody else"):
        home.create()
    assert list((public / "made").iterdir()) == []


# --- what an agent saves -------------------------------------------------------------------------


def saved(public: Path, home: Path) -> list[str]:
    """Names of the files that an agent takes over from memory when a job was interrupted."""
    keeper = CopyKeeper(Home(home), ["n01"], home / "notes")
    places = CopyPlaces(str(public / "dq-1"), "")
    while not keeper.save(7, 1, places):
        pass
    return sorted(p.name for p in (home / "jobs/7/copies").rglob("*") if p.is_file())


def test_what_is_in_memory_is_saved_and_nothing_stays(public: Path, tmp_path: Path) -> None:
    held = private.make_private(public / "dq-1/n01/7/1.1", below=public)
    (held / "part-00000").write_bytes(b"data")
    assert saved(public, tmp_path / "home") == ["part-00000"]
    assert list(public.iterdir()) == []


def test_a_link_among_copies_is_not_followed(public: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("mine")
    held = private.make_private(public / "dq-1/n01/7/1.1", below=public)
    (held / "part-00000").symlink_to(secret)
    assert saved(public, tmp_path / "home") == []
    assert secret.read_text() == "mine"


@as_root
@pytest.mark.parametrize("level", ["dq-1", "dq-1/n01", "dq-1/n01/7", "part"])
def test_what_somebody_else_has_put_there_is_not_saved(
    public: Path, tmp_path: Path, level: str
) -> None:
    held = private.make_private(public / "dq-1/n01/7/1.1", below=public)
    (held / "part-00000").write_bytes(b"theirs")
    os.chown(held / "part-00000" if level == "part" else public / level, NOBODY, NOBODY)
    assert saved(public, tmp_path / "home") == []
