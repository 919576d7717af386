"""What an agent in a holder finds out for itself: its node's name, and where its files may lie."""

from __future__ import annotations

import fcntl
import hashlib
import os
from itertools import count
from pathlib import Path

from dq_client.base.home import Home
from dq_client.deploy.ssh.filesystem import network_kind


def own_home(home: Home) -> Home:
    """The home, or a folder on this machine if that lies on a network file system."""
    if not network_kind(home.root):
        return home
    mark = hashlib.sha256(str(home.root).encode()).hexdigest()[:8]
    return Home(Path(f"/var/tmp/dq-{os.getuid()}-{mark}"))  # noqa: S108 - made with mode 0700


def free_name(home: Home, base: str) -> str:
    """`base`, the node's name in its batch system; with -2, -3 ... if other holders have it.

    The name is this process's until it ends. Names are used again, so that the server does not
    know ever more nodes.
    """
    home.create()
    folder = home.root / "holders"
    folder.mkdir(mode=0o700, exist_ok=True)
    for number in count(1):
        name = base if number == 1 else f"{base}-{number}"
        lock = os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o600)  # closed by the end of us
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
        else:
            return name
    raise AssertionError("numbers do not end")
