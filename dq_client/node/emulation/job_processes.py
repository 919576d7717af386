"""The processes of jobs on each node: found from the agents' records.

A node's ranks have a keeper above them, whose claim is in the agent's folder:

    DQ_HOME/agents/NODE/holdings/JOB.INSTANCE/claim        pid and start of the keeper of DQ's own
    keeper → rank → whatever the rank starts               ranks (dq_client/node/ranks/keeper.py)
    DQ_HOME/agents/NODE/holdings/JOB.INSTANCE.RUN/claim    of the keeper of a proxy of MPI
    keeper → hydra_pmi_proxy → rank → ...                  (ranks/program_keeper.py)

So a walk down from the keepers, by the kernel's lists of children, finds a node's ranks without
looking at any other process of the machine. What belongs to the launch (starter, keeper, proxy,
mpiexec, dq-rsh) is left out: it waits, and new ranks wait for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from dq_client.base.process import start_ticks

if TYPE_CHECKING:  # only a type here, and that module imports psutil
    from dq_client.base.home import Home

PROXY = "hydra_pmi_proxy"
CONTROL = "control"  # in the folder of a keeper of DQ's own ranks: its socket


class JobProcesses:
    """Keepers known so far, and what runs below them."""

    def __init__(self, home: Home) -> None:
        self._agents = home.root / "agents"
        self._keepers: dict[Path, int] = {}  # holding with ranks -> pid of its keeper

    def of_node(self, node: str) -> Iterator[tuple[int, int]]:
        """(parent, pid) of every process of jobs on the node, parents first.

        The parent of a rank is its keeper or its proxy; of a process whose parent has ended, the
        keeper.
        """
        keepers = set(self._keepers_of(node))
        todo = list(keepers)
        while todo:
            parent = todo.pop()
            for pid in children(parent):
                todo.append(pid)
                if parent not in keepers or not is_proxy(pid):
                    yield parent, pid

    def _keepers_of(self, node: str) -> Iterator[int]:
        holdings = self._agents / node / "holdings"
        try:
            names = os.listdir(holdings)  # noqa: PTH208 - once per node and scan: pathlib is slow
        except OSError:
            return
        for name in names:
            folder = holdings / name
            pid = self._keepers.get(folder)
            if pid is None:
                if name.count(".") < 2 and not (folder / CONTROL).exists():
                    continue  # the launcher's own: mpiexec and dq-rsh
                pid = claimed_by(folder)
                if not pid:
                    continue
                self._keepers[folder] = pid
            yield pid

    def forget_ended(self) -> None:
        """Drop keepers whose folder is gone: their numbers will be used again."""
        self._keepers = {f: pid for f, pid in self._keepers.items() if f.is_dir()}


def claimed_by(folder: Path) -> int:
    """The keeper of a holding; 0 if none runs (yet, or any more)."""
    try:
        pid, ticks = (int(word) for word in (folder / "claim").read_text().split())
        return pid if start_ticks(pid) == ticks else 0
    except (OSError, ValueError):
        return 0


def children(pid: int) -> list[int]:
    """Children of a process, whichever of its threads started them; none if it is gone."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as f:
                found += map(int, f.read().split())
    except OSError:
        pass
    return found


def is_proxy(pid: int) -> bool:
    """Whether this is MPI's proxy; a process that is gone is none."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == PROXY
    except OSError:
        return False


def age_s(pid: int, now_s: float) -> float:
    """How old a process is at `now_s` of CLOCK_BOOTTIME; 0 if it is gone."""
    try:
        return now_s - start_ticks(pid) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return 0.0
