"""Folders that are one user's alone, in places where others can write, too (/dev/shm, /tmp).

A mode of 0700 for the last level says nothing about the levels above it: who made one of them, or
may write there, can exchange what lies below. So folders of ours are made level by level and each
is checked: a folder and no link, ours, and open to nobody else. Each level is checked before the
one below it is looked at; after that nobody else can exchange it, and there is no race.

Standard library only: it is used in agents, by the server's commands and in ranks.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from dq_client.base import opened

OTHERS = 0o077
OTHERS_WRITE = 0o022


class NotPrivate(OSError):
    """A folder that is not ours alone; `filename` and `strerror` say which and why."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(errno.EPERM, why, str(path))

    def __str__(self) -> str:
        return f"{self.filename} {self.strerror}"


def make_private(folder: Path, *, below: Path) -> Path:
    """Make a folder with all levels under `below`, whatever the umask is; returns it.

    `below` is there already, and what leads to it must be safe (`check_way`). NotPrivate if a level
    is there that is not ours alone.
    """
    check_way(below)
    for level in _levels(folder, below):
        with suppress(FileExistsError):
            level.mkdir(mode=0o700)
        check_own(level)
    return folder


def check_private(folder: Path, *, below: Path) -> None:
    """What `make_private` checks, of a folder that is there. OSError if it is not."""
    check_way(below)
    for level in _levels(folder, below):
        check_own(level)


def check_own(folder: Path, refused: int = OTHERS) -> None:
    """NotPrivate unless it is a folder of ours without any of the bits `refused` in its mode."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise NotPrivate(folder, "is a link, or no folder: remove it")
    if found.st_uid != os.geteuid():
        raise NotPrivate(folder, "belongs to somebody else: choose another folder")
    if found.st_mode & refused:
        mode = stat.S_IMODE(found.st_mode)
        raise NotPrivate(folder, f"is open to others (mode {mode:o}): run chmod 700 {folder}")


def check_way(folder: Path) -> None:
    """NotPrivate if others could exchange the folder, or a level above it.

    Levels must be root's or ours, and where others may write the sticky bit must keep them from
    renaming what is not theirs. So must be links. A group that has nobody else is no other.
    """
    ours = {0, os.geteuid()} | _unmapped()
    path = Path(os.path.abspath(folder))  # noqa: PTH100 - resolve() would follow links unchecked
    for level in [*reversed(path.parents), path]:
        found = level.lstat()
        if found.st_uid not in ours:
            raise NotPrivate(level, "belongs to somebody else")
        if stat.S_ISLNK(found.st_mode):
            check_way(level.resolve())
        elif found.st_mode & stat.S_ISVTX:
            continue
        elif found.st_mode & stat.S_IWGRP and not _is_ours_alone(found.st_gid):
            raise NotPrivate(level, f"is writable by its group: run chmod g-w {level}")
        elif found.st_mode & stat.S_IWOTH:
            raise NotPrivate(level, "is writable by everybody, and its sticky bit is not set")


def open_own(path: Path) -> int:
    """A descriptor to read a file of ours; NotPrivate for a link, or a file of somebody else."""
    try:
        return opened.open_own(path)
    except OSError as e:
        if e.errno in opened.STRANGE:
            raise NotPrivate(path, f"is no file of ours: {e.strerror}") from None
        raise


def _is_ours_alone(gid: int) -> bool:
    """Whether a group is root's, or the one of this user's name, and nobody else is in it."""
    import grp  # rarely: it may ask a directory service
    import pwd

    try:
        group, me = grp.getgrgid(gid), pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return gid in (0, os.getegid())
    return (gid == 0 or group.gr_name == me) and set(group.gr_mem) <= {me, "root"}


def _levels(folder: Path, below: Path) -> list[Path]:
    parts = folder.relative_to(below).parts
    return [below.joinpath(*parts[: n + 1]) for n in range(len(parts))]


def _unmapped() -> set[int]:
    """In a user namespace (rootless containers): how what is the host's root looks there."""
    with suppress(OSError, ValueError):
        mapped = opened.kernel("/proc/self/uid_map").decode().splitlines()
        if sum(int(line.split()[2]) for line in mapped) < 2**32 - 1:
            return {int(opened.kernel("/proc/sys/kernel/overflowuid"))}
    return set()
