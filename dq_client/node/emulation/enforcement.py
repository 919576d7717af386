"""How agents hold ranks to their node's share of a core.

What does not join its node's control group by itself is put into it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dq_client.base import cgroups
from dq_client.base.home import Home
from dq_client.node.emulation.job_processes import JobProcesses, age_s

NAP = {"DQ_WAIT": "nap"}  # a rank that polls would spend its node's share on waiting


@dataclass(frozen=True, slots=True)
class NodeEnforcement:
    """For one agent: the environment of its ranks, and what it does at each heartbeat."""

    environment: dict[str, str]
    each_beat: Callable[[], object]


def of_node(
    home: Home, node: str, groups: str, more: Mapping[str, str] | None = None
) -> NodeEnforcement:
    """What the agent of `node` needs. `groups`: the folder of all nodes' control groups.

    `more`: further variables of its ranks.
    """
    jobs, group = JobProcesses(home), Path(groups) / node
    environment = {cgroups.JOIN_VARIABLE: groups, **NAP, **(more or {})}
    return NodeEnforcement(environment, lambda: _enclose(jobs, node, group))


def _enclose(jobs: JobProcesses, node: str, group: Path) -> None:
    # Ranks only: starters and keepers stay outside, else whatever they fork would begin inside.
    now_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    jobs.forget_ended()
    for _, pid in jobs.of_node(node):
        if age_s(pid, now_s) > cgroups.STARTING_S:
            with contextlib.suppress(OSError):  # it has ended meanwhile
                cgroups.put(group, pid)
