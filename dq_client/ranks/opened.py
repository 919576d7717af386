"""Opening the output files of a job, in folders where others may write, too.

The job's folder in DQ_HOME has `out` and `err`: files, or links to the files that the user has
named (agent/output_files.py). Whoever writes or reads opens them here, and looks at what it has
opened: nothing that somebody puts there in between is written to, read or waited for.
"""

from __future__ import annotations

import errno
import os
import stat

NOWHERE = "/dev/null"


def open_output(path: str | os.PathLike[str], flags: int) -> int:
    """Return a descriptor of a job's output file, opened with `flags`; made with mode 0600.

    Raises:
        OSError: it cannot be opened, or is no regular file of this user (a link, a FIFO, a device).
    """
    name = os.fspath(path)
    try:
        name = os.path.join(os.path.dirname(name), os.readlink(name))
    except OSError:  # no link
        pass
    try:
        # A FIFO that nobody reads would be waited for.
        fd = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as e:
        if e.errno in (errno.ELOOP, errno.ENXIO):
            raise OSError(e.errno, "it is no regular file", name) from None
        raise
    why = "" if name == NOWHERE else not_ours(os.fstat(fd))
    if why:
        os.close(fd)
        raise OSError(errno.EPERM, why, name)
    os.set_blocking(fd, True)
    return fd


def not_ours(found: os.stat_result) -> str:
    """Why this is no file that output may go to; empty: it is one."""
    if not stat.S_ISREG(found.st_mode):
        return "it is no regular file (a link, a device or a folder)"
    return "" if found.st_uid == os.geteuid() else "it belongs to somebody else"
