"""The one way to files: what is opened here is looked at, and nothing is waited for.

Everything of DQ_HOME, and every output of a job in folders where others may write, too, is opened
by these functions in server, agents, keepers and page; tests/architecture enforces it. Each looks
at what it has opened: a FIFO, a link, a device or somebody else's file that has taken the place of
a file is an OSError, and is neither read, written nor waited for. A path is never checked first and
opened again.

The job's folder in DQ_HOME has `out` and `err`: files, or links to the files that the user has
named (agent/output_files.py). Standard library only, because keepers run in the job's interpreter.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from typing import Optional, Union

NOWHERE = "/dev/null"
READ_BYTES_MAX = 256 << 20  # of a file that is read whole
STRANGE = (errno.ELOOP, errno.ENXIO, errno.EPERM)  # errors of what is no regular file of ours

Path_ = Union[str, "os.PathLike[str]"]


# --- output of jobs -------------------------------------------------------------------------------


def open_output(path: Path_, flags: int) -> int:
    """Return a descriptor of a job's output file, opened with `flags`; made with mode 0600.

    Raises:
        OSError: it cannot be opened, or is no regular file of this user (a link, a FIFO, a device).
    """
    name = os.fspath(path)
    try:
        name = os.path.join(os.path.dirname(name), os.readlink(name))
    except OSError:  # no link
        pass
    return open_own(name, flags, anywhere=name == NOWHERE)


def open_input(path: Path_) -> int:
    """Return a descriptor of what a job reads: any file that the user may read.

    Raises:
        OSError: it cannot be opened. A FIFO is not waited for: without a writer it is empty.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    os.set_blocking(fd, True)
    return fd


# --- files of DQ_HOME -----------------------------------------------------------------------------


def open_own(
    path: Path_, flags: int = os.O_RDONLY, mode: int = 0o600, *, anywhere: bool = False
) -> int:
    """Return a descriptor of a regular file of this user, opened with `flags` and O_CLOEXEC.

    `anywhere`: whatever it is.

    Raises:
        OSError: it cannot be opened, or is something else.
    """
    name = os.fspath(path)
    # Cut only after it was looked at. A FIFO that nobody reads would be waited for.
    cut, flags = flags & os.O_TRUNC, flags & ~os.O_TRUNC
    try:
        fd = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    except OSError as e:
        if e.errno in (errno.ELOOP, errno.ENXIO):
            raise OSError(e.errno, "it is no regular file", name) from None
        raise
    why = "" if anywhere else not_ours(os.fstat(fd))
    if why:
        os.close(fd)
        raise OSError(errno.EPERM, why, name)
    os.set_blocking(fd, True)
    if cut and not anywhere:
        os.ftruncate(fd, 0)
    return fd


def not_ours(found: os.stat_result) -> str:
    """Why this is no file that output may go to; empty: it is one."""
    if not stat.S_ISREG(found.st_mode):
        return "it is no regular file (a link, a device or a folder)"
    return "" if found.st_uid == os.geteuid() else "it belongs to somebody else"


def read(path: Path_, bytes_max: int = READ_BYTES_MAX) -> bytes:
    """Return the contents of a file of ours. OSError, also if it is larger than `bytes_max`."""
    with os.fdopen(open_own(path), "rb") as f:
        data = f.read(bytes_max + 1)
    if len(data) > bytes_max:
        raise OSError(errno.EFBIG, f"it has more than {bytes_max} bytes", os.fspath(path))
    return data


def read_text(path: Path_) -> str:
    """Return the text of a file of ours. OSError; ValueError if it is no text in UTF-8."""
    return read(path).decode("utf-8")


def write(path: Path_, data: bytes) -> None:
    """Write a file that only its owner reads, whole: a reader never sees half of it. OSError."""
    folder, name = os.path.split(os.fspath(path))
    # Not by the pid alone: on a shared file system two machines may have the same.
    draft = os.path.join(folder, f".{name}.{os.getpid()}.{os.urandom(4).hex()}")
    # The mode is given when the file is made: a chmod afterwards would leave a moment in which
    # others can open it.
    with os.fdopen(open_own(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as f:
        try:
            f.write(data)
            f.flush()
            os.replace(draft, os.fspath(path))
        except OSError:  # a full disk gets no fuller by what is tried again
            os.unlink(draft)
            raise


def open_log(path: Path_, *, fresh: bool = False) -> int:
    """Return a descriptor to append to a log; `fresh`: what is in it goes. OSError."""
    return open_own(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | (os.O_TRUNC if fresh else 0))


def lock(path: Path_) -> Optional[int]:
    """Return a descriptor that holds the lock of this file; None: another process holds it."""
    fd = open_own(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


def sync(path: Path_) -> None:
    """Write a file of ours, or what happened in a folder, to the disk. OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


# --- the kernel's ---------------------------------------------------------------------------------


def kernel(path: str) -> bytes:
    """Return what the kernel says under /proc or /sys. OSError."""
    if not path.startswith(("/proc/", "/sys/")):
        raise ValueError(path)
    with open(path, "rb") as f:
        return f.read()
