"""Quotas as plain data: `dq quotas`."""

from __future__ import annotations

from typing import Any

from dq_server.core.model.jobs import ENDED, JobState
from dq_server.core.model.quota_use import QuotaUse, hours_of
from dq_server.core.model.quotas import (
    EVERYONE,
    INF,
    Bounds,
    Entity,
    HoursUsed,
    Limits,
    QuotaOptions,
)
from dq_server.core.model.state import State
from dq_server.core.scheduler import Scheduler


def quotas_view(scheduler: Scheduler, now: float) -> list[dict[str, Any]]:
    """What each user and each group may have, and has; times in seconds since the epoch."""
    options, state = scheduler.config.of(QuotaOptions), scheduler.state
    book = QuotaUse.of(state)
    return [_row(state, book, entity, limits, now) for entity, limits in _bounded(state, options)]


def _bounded(state: State, options: QuotaOptions) -> Bounds:
    """Who has a table, and for whom that of everybody counts who has jobs, or has used hours.

    If it counts for nobody yet, the table itself: else it would seem that there is no quota.
    """
    users = set(options.user) - {EVERYONE}
    if EVERYONE in options.user:
        users |= {job.spec.user for job in state.jobs.values() if job.state not in ENDED}
        kinds = [words.partition(" ") for words in HoursUsed.of(state).by_entity]
        users |= {name for kind, _, name in kinds if kind == "user"}
    members = {user for limits in options.group.values() for user in limits.members}
    found = {e: limits for user in sorted(users | members) for e, limits in options.of(user)}
    there = [e for e in found if e.kind == "group" or e.name in users]
    if EVERYONE in options.user and not users - set(options.user):
        everyone = next(e for e, _ in options.of(EVERYONE) if e.kind == "user")
        found[everyone] = options.user[EVERYONE]
        there.append(everyone)
    return [(e, found[e]) for e in sorted(there, key=lambda e: (e.kind != "user", e.name))]


def _row(
    state: State, book: QuotaUse, entity: Entity, limits: Limits, now: float
) -> dict[str, Any]:
    use, users = book.of_entity(entity, limits), limits.members or (entity.name,)
    there = [j for j in state.jobs.values() if j.spec.user in users and j.state not in ENDED]
    hours, free_s = None, now
    if limits.hours is not None:
        hours, free_s = hours_of(state, entity, limits, now)
    return {
        "kind": entity.kind,
        "name": entity.name,
        "table": entity.table,
        "members": list(limits.members),
        "processors": use.processors - use.processors_next,
        "processors_next": use.processors_next,
        "processors_max": limits.processors,
        "jobs": use.jobs - use.jobs_next,
        "jobs_next": use.jobs_next,
        "jobs_max": limits.jobs,
        "waiting": sum(job.state is JobState.WAITING for job in there),
        "queued": len(there),
        "queued_max": limits.queued,
        "hours": hours,
        "hours_max": limits.hours,
        "window_s": None if limits.hours is None else limits.window_s,
        "free_s": free_s if now < free_s < INF else None,
    }
