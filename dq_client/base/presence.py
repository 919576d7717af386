"""A rank's mark: a file that says that the rank is in its session and has not left it.

MPI's launcher notices a rank that a signal killed, not one that ends by itself without leaving the
job: the others wait for it for ever. So a rank writes a file on its node when it enters its
session, and removes it when it leaves. A mark whose process is gone is a lost rank, whoever looks
and however late: an agent that was away finds the same.

    $DQ_HOME/agents/NAME/ranks/JOB.INSTANCE/PID     the process's start time in the kernel's count

NAME is the rank's own node's agent: its proxy sets DQ_AGENT (dq_client/base/process_tree.py).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from dq_client.base import process_tree
from dq_client.base.home import Home, write_private
from dq_client.base.process import start_ticks

NEEDED = ("DQ_HOME", "DQ_JOB_ID", "DQ_JOB_INSTANCE")


def folder_of(home: Home, agent: str) -> Path:
    """The marks of all ranks on an agent's nodes, one folder per job instance."""
    return home.agent(agent) / "ranks"


class RankMark:
    """This process's mark. Nothing happens outside of DQ, or where no file can be written."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._pid = os.getpid()
        self._path: Path | None = None
        agent = process_tree.owner(environment)
        if not agent or not all(environment.get(name) for name in NEEDED):
            return
        instance = f"{environment['DQ_JOB_ID']}.{environment['DQ_JOB_INSTANCE']}"
        home = Home(Path(environment["DQ_HOME"]))
        self._path = folder_of(home, agent) / instance / str(self._pid)
        with contextlib.suppress(OSError):  # a full disk: this rank's end will not be noticed
            write_private(self._path, str(start_ticks(self._pid)))

    def remove(self) -> None:
        """This rank leaves its session."""
        # A child that was forked off this rank inherits the mark; its end says nothing of the rank.
        if self._path is not None and os.getpid() == self._pid:
            with contextlib.suppress(OSError):
                self._path.unlink()


def lost(folder: Path) -> list[int]:
    """Pids of one job instance's ranks that are gone and whose mark is still there."""
    try:
        marks = [path for path in folder.iterdir() if path.name.isdigit()]
    except OSError:
        return []
    # In this order, because a rank removes its mark before it ends: a rank that leaves between the
    # two looks has no mark any more. The other way round it would be taken for lost.
    return sorted(int(path.name) for path in marks if _gone(path) and path.exists())


def _gone(mark: Path) -> bool:
    pid = int(mark.name)
    try:
        same = start_ticks(pid) == int(mark.read_text())
    except (OSError, ValueError):
        return True  # no such process; or no such mark any more
    return not same or not process_tree.exists(pid)
