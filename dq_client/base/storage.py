"""Why files cannot be written in a folder, in one line that says where and what to do.

A trial tells more than statvfs: quotas, file systems that are read-only for us alone, and disks
that fail show in it only. Standard library only: agents, the server and commands use it.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

from dq_client.base import opened

# As much as a turn of the server may write before its next trial: less would let a disk that is
# full but for a page go back and forth.
TRIAL_BYTES = 64 << 10
# What passes without anybody changing the request: room is made, a disk is mounted again.
PASSING = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
GOES_ON = "everything then goes on by itself"


def fault(folder: Path, *, flush: bool = True) -> str:
    """What keeps files in a folder, which exists, from being written; empty: nothing does.

    flush: down to the disk, which takes milliseconds: some file systems find out only then.
    """
    trial = folder / f".trial.{os.getpid()}"
    try:
        fd = opened.open_own(trial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            left = memoryview(bytes(TRIAL_BYTES))
            while left:
                left = left[os.write(fd, left) :]
            if flush:
                os.fdatasync(fd)
        finally:
            os.close(fd)
    except OSError as e:
        return describe(e, folder)
    finally:
        with suppress(OSError):
            trial.unlink()
    return ""


def describe(error: OSError, folder: Path) -> str:
    """An error met in writing below the folder: which disk, what is wrong with it, what to do."""
    mount = _mount_of(folder)
    what, todo = _told(error, mount)
    return f"cannot write in {folder}: {what}: {todo}; {GOES_ON}"


def _told(error: OSError, mount: Path) -> tuple[str, str]:
    disk = f"the disk mounted at {mount}"
    if error.errno == errno.ENOSPC:
        with suppress(OSError):
            found = os.statvfs(mount)
            if found.f_files and not found.f_favail:
                return f"{disk} has no inodes left ({found.f_files} files)", "remove files there"
        return f"{disk} is full", "make room there"
    if error.errno == errno.EDQUOT:
        return f"the quota of user {os.geteuid()} on {disk} is used up", "remove files there"
    if error.errno == errno.EROFS:
        return f"{disk} is read-only", f"mount it writable (mount -o remount,rw {mount})"
    if error.errno == errno.EIO:
        return f"{disk} fails ({error.strerror})", "see dmesg, and mend or replace it"
    return f"{error.strerror} (on {disk})", "mend that"


def _mount_of(folder: Path) -> Path:
    """Where the disk that has the folder is mounted."""
    path = folder.absolute()
    with suppress(OSError):
        path = folder.resolve()
        while not path.is_mount():
            path = path.parent
    return path
