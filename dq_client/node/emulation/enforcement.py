"""How agents hold ranks to their node's share of a core.

Under the governor an agent sees to it that there is one. With control groups it puts into its
node's group what does not join by itself.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from dq_client.base import cgroups
from dq_client.base.home import Home
from dq_client.node.emulation import governor
from dq_client.node.emulation.job_processes import JobProcesses, age_s

NAP = {"DQ_WAIT": "nap"}  # a rank that polls would spend its node's share on waiting


class Enforcement(msgspec.Struct):
    """For all agents of a cluster. `groups`: folder of the control groups; empty: a governor."""

    environment: dict[str, str]
    groups: str = ""


@dataclass(frozen=True, slots=True)
class NodeEnforcement:
    """For one agent: the environment of its ranks, and what it does at each heartbeat."""

    environment: dict[str, str]
    each_beat: Callable[[], object]


def by_governor(home: Home, cores: dict[str, float]) -> Enforcement:
    """Start the home's governor."""
    home.log.mkdir(mode=0o700, exist_ok=True)
    environment = governor.prepare(home, cores)
    governor.start(home)
    return Enforcement({**environment, **NAP})


def by_groups(groups: str) -> Enforcement:
    """The control groups are there."""
    return Enforcement({cgroups.JOIN_VARIABLE: groups, **NAP}, groups)


def of_node(home: Home, node: str, enforcement: Enforcement) -> NodeEnforcement:
    """What the agent of `node` needs."""
    if not enforcement.groups:
        # every agent tries at each heartbeat: whichever gets the lock replaces a governor that died
        return NodeEnforcement(enforcement.environment, lambda: governor.start(home))
    jobs, group = JobProcesses(home), Path(enforcement.groups) / node
    return NodeEnforcement(enforcement.environment, lambda: _enclose(jobs, node, group))


def _enclose(jobs: JobProcesses, node: str, group: Path) -> None:
    # Ranks only: starters and keepers stay outside, else whatever they fork would begin inside.
    now_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    jobs.forget_ended()
    for _, pid in jobs.of_node(node):
        if age_s(pid, now_s) > cgroups.STARTING_S:
            with contextlib.suppress(OSError):  # it has ended meanwhile
                cgroups.put(group, pid)
