"""Nodes whose time ends are renewed while jobs are on them: others are asked for in time.

A job that can be moved leaves a node before its end (features/node_ends.py). For it to have
somewhere to go, or not to run on fewer processors until nodes have been asked for, as many are
asked for `horizon_s` before as jobs hold there. If the pool is full, one node after the other is
given up early, so that another one may come: a pool needs one node more than its largest job's
smallest size to carry a job over the ends of all.

A waiting job that no node lasts long enough for is given fresh ones in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.ends import (
    Ends,
    NodeOptions,
    can_move,
    held_on,
    known,
    lasting_of,
    needed_until_s,
)
from dq_server.core.model.jobs import Job, JobState
from dq_server.core.model.pool import Pool, PoolOptions
from dq_server.core.model.reasons import Reason, because, declare
from dq_server.core.model.state import State

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
    usable, coming = (
        len(lasting_of(state, ends, state.processors.idle, until_s)),
        Pool.of(state).on_the_way(),
    )
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
