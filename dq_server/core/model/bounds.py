"""How large a running job may grow, whatever is idle: what features say of it (`limit`)."""

from __future__ import annotations

from dataclasses import replace

from dq_server.core.model.answers import Bound
from dq_server.core.model.decisions import Verdict
from dq_server.core.model.jobs import Job
from dq_server.core.model.reasons import because, declare
from dq_server.core.model.sizes import largest_at_most
from dq_server.core.model.state import State
from dq_server.core.model.tracking import Found

declare(cannot_grow="no rank can join: {why}; not tried again before an order (dq resize)")


def bound(state: State, job: Job, *, asked: bool = False) -> Bound | None:
    """The tightest one; None: there is none. `asked`: its user or its program wants to grow."""
    found = state.features.limits(state, job, asked=asked)
    return min(found, key=lambda b: b.most, default=None)


def growth(state: State, job: Job, idle: int) -> int:
    """By how many of the idle processors the job may grow."""
    found = bound(state, job)
    return idle if found is None else max(0, min(idle, found.most - len(job.holds())))


def within(state: State, job: Job, verdict: Verdict, *, asked: bool) -> Verdict:
    """The verdict, or the largest size up to its target that the job may grow to; see `bound`."""
    target = verdict.target
    if target is None or verdict.processors or target.size <= job.size:
        return verdict
    found = bound(state, job, asked=asked)
    if found is None or target.size + len(job.spawned) <= found.most:
        return verdict
    smaller = largest_at_most(job.chain, found.most - len(job.spawned))
    if smaller is not None and smaller.size <= job.size:
        smaller = None
    told = Verdict(smaller, found.reason, judged=verdict.judged, kept=verdict.kept)
    # The verdict on the target's size says nothing about the smaller one.
    return told if smaller is None else replace(told, judged=False)


def without_growth(job: Job, verdict: Verdict) -> Verdict:
    """What a job does that no rank can join; where it would grow, or settle, it says why not."""
    reason = because("cannot_grow", why=job.cannot_grow)
    if verdict.target is not None:
        return Verdict(None, reason) if verdict.target.size > job.size else verdict
    settles = verdict.finding is not None and verdict.finding.what is Found.SETTLED
    return replace(verdict, reason=reason) if settles else verdict
