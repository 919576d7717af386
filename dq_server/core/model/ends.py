"""When the time of nodes ends: `until_s`, as far as it is known.

A node may be there for a known time only: an allocation of a batch system, a rented machine. It
drains `lead_s` before (features/node_ends.py), so that jobs which can be moved have left; others
are not placed on it unless they end before.

Nodes of a pool are renewed while jobs are on them: others are asked for in time (`Renewal`). For a
job that leaves a node before its end to have somewhere to go, or not to run on fewer processors
until nodes have been asked for, as many are asked for `horizon_s` before as jobs hold there. If the
pool is full, one node after the other is given up early, so that another one may come: a pool needs
one node more than its largest job's smallest size to carry a job over the ends of all. A waiting
job that no node lasts long enough for is given fresh ones in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.errors import ConfigError
from dq_server.core.model.jobs import Job, JobKind, JobState
from dq_server.core.model.options import Options
from dq_server.core.model.pool import Pool, PoolOptions
from dq_server.core.model.processors import Node
from dq_server.core.model.reasons import Reason, because, declare
from dq_server.core.model.records import Record
from dq_server.core.model.state import State

INF = float("inf")
LEAD_PART = 1 / 4  # of a node's time that its draining may take at most
MARGIN_S = 2.0  # what has not left is ended so long before: copies in memory are saved
MOVABLE = (JobKind.MALLEABLE, JobKind.EVOLVING, JobKind.WORKERS)  # jobs that can leave a node

LEAVE_WITHIN_S_MAX = 7 * 86400.0


@dataclass(frozen=True, slots=True)
class NodeOptions(Options):
    """How nodes come and go.

    leave_within_s  how long a leaving agent waits for its nodes to be empty (features/
                    draining.py); jobs that are left then end with it
    end_lead_s      how long before a node's time ends it drains (features/node_ends.py); at most a
                    quarter of its time
    """

    table = "nodes"

    leave_within_s: float = 30.0
    end_lead_s: float = 60.0

    def validate(self) -> None:
        for name in ("leave_within_s", "end_lead_s"):
            value = getattr(self, name)
            if not 0 <= value <= LEAVE_WITHIN_S_MAX:
                raise ConfigError(f"[nodes] {name} = {value}: from 0 to {LEAVE_WITHIN_S_MAX:g} s")


@dataclass(slots=True)
class Ends(Record, key="Ends"):
    """Of the state.

    until_s   node -> when its time ends; of nodes that are up, or about to join
    since_s   when that was heard first: how long the node lasts follows from it
    drained   nodes that were told to drain for it, and when
    aside     waiting jobs that cannot be moved and need longer than any node of theirs lasts;
              ascending, and no set: two equal ones must be the same bytes in a snapshot
    """

    until_s: dict[str, float] = field(default_factory=dict)
    since_s: dict[str, float] = field(default_factory=dict)
    drained: dict[str, float] = field(default_factory=dict)
    aside: list[int] = field(default_factory=list)

    def learn(self, node: str, until_s: float, now: float) -> None:
        """The node's time ends then, whatever was said before."""
        self.until_s[node] = until_s
        self.since_s.setdefault(node, now)

    def forget(self, node: str) -> None:
        """The node is no more."""
        self.until_s.pop(node, None)
        self.since_s.pop(node, None)
        self.drained.pop(node, None)

    def lasts_s(self, node: str) -> float:
        """How long the node is there in all, as far as we know."""
        return max(0.0, self.until_s[node] - self.since_s[node])

    def lead_s(self, node: str, most_s: float) -> float:
        """How long before its end it drains."""
        return min(most_s, LEAD_PART * self.lasts_s(node))

    def usable_until_s(self, node: str) -> float:
        """When the last of what runs there is ended; +inf: its end is not known."""
        until_s = self.until_s.get(node)
        if until_s is None:
            return INF
        return until_s - min(MARGIN_S, LEAD_PART * self.lasts_s(node))


def known(state: State) -> Ends | None:
    """The record if any node's end is known; most states have none."""
    found = Ends.known(state)
    return found if found is not None and (found.until_s or found.aside) else None


def offered(state: State) -> Iterator[Node]:
    """Nodes that are up and do not drain."""
    withheld = state.processors.withheld
    for node in state.processors.nodes.values():
        if node.up and not withheld.issuperset(node.processors):
            yield node


def can_move(job: Job) -> bool:
    """Whether the job can leave a node and go on."""
    return job.spec.kind in MOVABLE


def needed_until_s(state: State, ends: Ends, job: Job, now: float) -> float:
    """Until when a waiting job needs its processors to be there; -inf: it can do with any.

    One that says nothing of its run time, or is protected, and cannot be moved, needs nodes that
    last. Where these are too few to hold it, it runs on any, as well as it can.
    """
    if can_move(job):
        return -INF
    planned_s = job.spec.planned_s
    if planned_s is not None and job.spec.protection is None:
        return now + planned_s
    lasting = sum(len(n.processors) for n in offered(state) if n.name not in ends.until_s)
    if lasting < job.preferred.size:
        return -INF
    return INF if planned_s is None else now + planned_s


def lasting(state: State, ends: Ends, until_s: float) -> int:
    """Processors, idle or not, on nodes that are there until then."""
    return sum(len(n.processors) for n in offered(state) if ends.usable_until_s(n.name) >= until_s)


def lasting_of(state: State, ends: Ends, idle: Iterable[int], until_s: float) -> list[int]:
    """Those of them on nodes that are there until then; the nodes that end first come first."""
    node_of = state.processors.node_of
    found = [(ends.usable_until_s(node_of[p]), p) for p in idle]
    return [p for end_s, p in sorted(found) if end_s >= until_s]


def held_on(state: State, nodes: Iterable[str]) -> dict[int, int]:
    """Jobs that have processors on these nodes, and how many."""
    there, node_of = set(nodes), state.processors.node_of
    found = {
        job.id: sum(node_of[p] in there for p in job.allocation) for job in state.active.values()
    }
    return {job: count for job, count in found.items() if count}


NOTICED_S = 5.0  # an end, and that it has happened
PART = 1 / 4  # of a node's time: so much earlier than its end it is renewed, if that is more
LONGEST_S = 600.0  # but this is enough

declare(
    pool_renew="the time of {ending} nodes ends soon, jobs have {held} processors there: {idle} are"
    " idle and {coming} on their way elsewhere",
    pool_fresh="job {job} cannot be moved and needs {needed} processors for {needs_s:.0f} s: {idle}"
    " idle ones last long enough, {coming} are on their way",
)


@dataclass(frozen=True, slots=True)
class Renewal:
    """What is needed beside what the queue needs.

    nodes    whose time ends soon
    idle     processors that are no use for it, on these and on the useless ones
    needed   processors to ask for, unless idle or on their way
    useless  nodes that are too short for the job that it is for
    fresh    that job; None: it is for running ones
    """

    nodes: tuple[str, ...] = ()
    idle: int = 0
    needed: int = 0
    useless: frozenset[str] = frozenset()
    fresh: Job | None = None
    jobs: tuple[Job, ...] = ()
    reason: Reason | None = None


NOTHING = Renewal()


def renewal(state: State, config: SchedulerConfig, options: PoolOptions, now: float) -> Renewal:
    """The figures at this moment."""
    ends = known(state)
    if ends is None:
        return NOTHING
    lead_s = config.of(NodeOptions).end_lead_s
    soon = [
        name
        for name, until_s in ends.until_s.items()
        if _is_up(state, name) and until_s - horizon_s(state, ends, options, name, lead_s) <= now
    ]
    there = {p for name in soon for p in state.processors.nodes[name].processors}
    idle = sum(p in there for p in state.processors.idle)
    held = held_on(state, soon) if soon else {}
    moving = {
        job: count
        for job, count in held.items()
        if can_move(state.active[job]) and state.active[job].state is JobState.RUNNING
    }
    count = sum(moving.values())
    coming = Pool.of(state).on_the_way()
    if count:
        jobs = tuple(state.active[job] for job in moving)
        figures = {"ending": len(soon), "held": count, "coming": coming}
        reason = because("pool_renew", idle=max(0, state.idle - idle), **figures)
        return Renewal(tuple(soon), idle, count, jobs=jobs, reason=reason)
    return _fresh(state, ends, tuple(soon), idle, now)


def _fresh(state: State, ends: Ends, soon: tuple[str, ...], idle: int, now: float) -> Renewal:
    """For the first waiting job that needs nodes which last longer."""
    job = next((state.queue[j] for j in ends.aside if j in state.queue), None)
    if job is None:
        return Renewal(soon, idle)
    until_s = needed_until_s(state, ends, job, now)
    usable = len(lasting_of(state, ends, state.processors.idle, until_s))
    coming = Pool.of(state).on_the_way()
    useless = frozenset(n for n in ends.until_s if ends.usable_until_s(n) < until_s)
    figures = {"needed": job.needed, "idle": usable, "coming": coming}
    reason = because("pool_fresh", job=job.id, needs_s=until_s - now, **figures)
    return Renewal(soon, state.idle - usable, job.needed, useless, job, (job,), reason)


def horizon_s(state: State, ends: Ends, options: PoolOptions, node: str, lead_s: float) -> float:
    """How long before the end of a node's time another one is asked for."""
    lasts_s, takes_s = ends.lasts_s(node), Pool.of(state).start_takes_s(options)
    drains_s = ends.lead_s(node, lead_s)
    wanted_s = max(drains_s + 2 * takes_s + NOTICED_S, min(PART * lasts_s, LONGEST_S))
    return min(wanted_s + drains_s, lasts_s / 2)


def renewal_times(state: State, options: PoolOptions, lead_s: float, now: float) -> Iterator[float]:
    """When nodes come to their end: only times after `now`."""
    ends = known(state)
    if ends is None or not options.max:
        return
    for name, until_s in ends.until_s.items():
        due_s = until_s - horizon_s(state, ends, options, name, lead_s)
        if due_s > now and _is_up(state, name):
            yield due_s


def _is_up(state: State, name: str) -> bool:
    node = state.processors.nodes.get(name)
    return node is not None and node.up
