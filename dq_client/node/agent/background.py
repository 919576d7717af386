"""What processes outside DQ use of this machine: its agent says so in its heartbeats.

The kernel counts for how long each core was busy. What the descendants of agents, the server and
the keepers of jobs have used is taken off; the rest is the background load, in processors. A job
that was slowed by it cannot see that it has gone (docs/scheduling.md, "Background load").

In a container the other processes of the machine, of other agents among them, cannot be seen:
nothing is measured there. Measured are the cores that this agent may use. A step counts once two
measurements in a row show it: a process that ends between two of them takes what it has used since
the first with it, unless its parent asks for its end. What begins between two measurements is seen
in part by the next one: if the one after that shows more, a third says how much.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

import psutil

from dq_client.base.errors import DQError
from dq_client.base.home import Home, machine
from dq_client.node import local_agents
from dq_client.node.agent.usage import below, processes

STEP = 0.5  # processors: as the server's (dq_server/core/model/places.py)
NOISE = 0.1  # processors: two measurements of one load may differ so much
EVERY_S = 2.0
# Looks for other agents: a home may be shared by a thousand machines. Few are looked for each time.
PROCESSES_EVERY_S, FEW = 60.0, 16
ALL_PROCESSES = "pid:[4026531836]"  # the kernel's first namespace (PROC_PID_INIT_INO)
SHARE = 1 / 500  # of this agent's time, at most: to look through 300 processes takes 10 ms


@dataclass(frozen=True, slots=True)
class Used:
    """At one moment, in seconds of processors since the machine's boot."""

    time_s: float
    busy_s: float  # by everybody
    own_s: float  # by DQ's processes, with those that they have waited for


@dataclass(slots=True)
class BackgroundMeter:
    """`look` with each heartbeat."""

    home: Home
    measure: Callable[[Iterable[int]], Used] = field(default=lambda roots: used(roots))
    told: float = 0.0  # processors
    _others: set[int] = field(default_factory=set)  # the server and agents, as found last
    _others_s: float = float("-inf")
    _before: Used | None = None
    _steps: list[float] = field(default_factory=list)
    # from `told`, as measured last: in one direction, and each at least STEP
    _next_s: float = float("-inf")

    def look(self, now: float, keepers: Iterable[int]) -> float:
        """The load as it is to be told; measured if it is time to.

        `now`: of any clock, in seconds. `keepers`: processes of jobs that may be no descendants of
        this one, because an earlier agent has started them.
        """
        if now < self._next_s:
            return self.told
        if len(self._others) <= FEW or now >= self._others_s + PROCESSES_EVERY_S:
            self._others, self._others_s = processes_of(self.home), now
        began_s = time.perf_counter()
        at, before = self.measure({os.getpid(), *self._others, *keepers}), self._before
        self._next_s = now + max(EVERY_S, (time.perf_counter() - began_s) / SHARE)
        self._before = at
        if before is not None and at.time_s > before.time_s:
            others_s = at.busy_s - before.busy_s - max(0.0, at.own_s - before.own_s)
            self._take_in(max(0.0, others_s) / (at.time_s - before.time_s))
        return self.told

    def forget(self) -> None:
        """Nothing runs here: no need to look; what is measured next begins anew."""
        self._before = None
        self._steps.clear()

    def _take_in(self, load: float) -> None:
        step, steps = load - self.told, self._steps
        if abs(step) < STEP or (steps and steps[-1] * step < 0):
            steps.clear()
        if abs(step) >= STEP:
            steps.append(step)
        # Told too small, its end could be too small a step to be told.
        if len(steps) == 3 or (len(steps) == 2 and abs(step) <= abs(steps[0]) + NOISE):
            self.told = round(self.told + min(steps[-2:], key=abs), 1)  # that much is certain
            steps.clear()


def sees_all() -> bool:
    """Whether all processes of the machine can be seen from here."""
    try:
        return os.readlink("/proc/self/ns/pid") == ALL_PROCESSES  # noqa: PTH115 - no path: a label
    except OSError:
        return False


def used(roots: Iterable[int]) -> Used:
    """What has been used until now."""
    return Used(time.monotonic(), busy_s(os.sched_getaffinity(0)), own_s(roots))


def busy_s(cores: Iterable[int]) -> float:
    """For how long these cores have been busy, in seconds, added up."""
    each = psutil.cpu_times(percpu=True)
    here = [each[core] for core in cores if core < len(each)]
    return sum(t.user + t.nice + t.system + t.irq + t.softirq + t.steal for t in here)


def own_s(roots: Iterable[int]) -> float:
    """What these processes and their descendants have used, with the children they waited for."""
    table = processes()
    return sum(table[pid].cpu_s + table[pid].waited_s for pid, _ in below(table, roots))


def processes_of(home: Home) -> set[int]:
    """The server and the agents of a home that run on this machine."""
    found = {int(agent["pid"]) for agent in local_agents.running_agents(home).values()}
    with suppress(DQError):
        server = home.server()
        if server.get("machine") == machine():
            found.add(server["pid"])
    return found
