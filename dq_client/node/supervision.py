"""The supervisor of a home's agents (supervisor.py), as others see it: whether it runs, its end."""

from __future__ import annotations

import contextlib
import json
import os
import signal

import psutil

from dq_client.base import opened, process_tree
from dq_client.base.home import Home, created_s, is_alive, machine, write_private
from dq_client.base.text_files import object_of

RECORD = "cluster.json"  # in the home: which agents are to be there (fleet.py)
FILE = "supervisor.json"  # in the home, while it runs
ENDS_WITHIN_S = 5.0
DESCRIPTORS_MAX = 4096  # more than a supervisor has: two for each node at most


def write(home: Home) -> None:
    """Say that this process is the supervisor."""
    me = psutil.Process()
    info = {"pid": me.pid, "create_time": created_s(me.pid), "machine": machine()}
    write_private(home.root / FILE, json.dumps(info))


def pid_of(home: Home) -> int | None:
    """Pid of the supervisor on this machine; None if there is none."""
    pid, alive = _noted(home)
    return pid if alive else None


def lock(home: Home) -> int | None:
    """The lock of the one supervisor, as a descriptor to keep; None: another one has it."""
    return opened.lock(home.root / "supervisor.lock")


def is_locked(home: Home) -> bool:
    """Whether a supervisor is there, or starts or ends."""
    fd = lock(home)
    if fd is not None:
        os.close(fd)
    return fd is None


def was_killed(home: Home) -> bool:
    """Whether the supervisor of this machine has died: one that ends in order removes its file."""
    pid, alive = _noted(home)
    return pid is not None and not alive


def restores_server(home: Home) -> bool:
    """Whether the server was killed, and a supervisor is there, which starts it again."""
    return home.server_file.exists() and pid_of(home) is not None


def _noted(home: Home) -> tuple[int | None, bool]:
    """Pid in the file of a supervisor on this machine, None without one; whether it is alive."""
    try:
        info = object_of(home.root / FILE)
        if info["machine"] != machine():
            return None, False
        return int(info["pid"]), is_alive(info["pid"], info["create_time"])
    except (OSError, ValueError, KeyError, TypeError):
        return None, False


def end(home: Home) -> None:
    """End it, so that what is ended next stays ended; its agents live on."""
    pid = pid_of(home)
    with contextlib.suppress(OSError):  # a disk that fails; nobody believes a file without process
        (home.root / FILE).unlink()  # first: the server starts one again whose file is there
    if pid is not None:
        process_tree.end(pid, signal.SIGTERM, ENDS_WITHIN_S)


def leave_behind(but: int = 2) -> None:
    """In a process that was forked to be an agent: nothing but one descriptor is the supervisor's.

    Its lock above all would be held for as long as the agent runs.
    """
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    os.closerange(3, but)
    os.closerange(but + 1, DESCRIPTORS_MAX)
