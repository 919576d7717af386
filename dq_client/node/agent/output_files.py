"""Files that a user has named for a job's output (`dq submit --output, --error`).

The keeper appends to `out` and `err` in the job's folder of DQ_HOME, and `dq logs` reads them
there: each is a symbolic link to the file that the user has named. It is made, or appended to; what
is no regular file is never written to.
"""

from __future__ import annotations

import os
from pathlib import Path

from dq_client.base.home import Home
from dq_client.base.launch import LaunchError
from dq_client.base.opened import NOWHERE, not_ours


def place(home: Home, job: int, paths: dict[str, str]) -> None:
    """Let the job's streams ("out", "err") lead to these paths; LaunchError if one cannot be used.

    Done again for each world of ranks, on each of its nodes: what is there already stays.
    """
    folder = home.job(job)
    for stream, path in paths.items():
        if not path:
            continue
        try:
            _make(home, Path(path))
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _link(folder / stream, path)
        except OSError as e:
            raise LaunchError(f"the output cannot go to {path}: {e.strerror}") from e


def _make(home: Home, path: Path) -> None:
    """An empty file, if there is none yet, and its folders."""
    if str(path) == NOWHERE:
        return
    if path.parent.resolve().is_relative_to(home.root.resolve()):
        raise LaunchError(f"the output cannot go to {path}: DQ keeps its own files there")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        # Not open() alone: a link that appears in this moment would be followed.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        os.close(os.open(path, flags, 0o666))
    except FileExistsError:
        why = not_ours(path.lstat())
        if why:
            raise LaunchError(f"the output cannot go to {path}, which is there: {why}") from None


def _link(link: Path, path: str) -> None:
    try:
        link.symlink_to(path)
    except FileExistsError:  # of an earlier world, or by the agent of another node on a shared home
        if not link.is_symlink() or str(link.readlink()) != path:
            raise LaunchError(f"the output cannot go to {path}: {link} is there already") from None
