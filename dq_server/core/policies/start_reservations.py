"""Start by plan: the first `reservation_depth` jobs that must wait get reservations.

Source: Prabhakaran et al. 2014, III-A (Maui's ReservationDepth) and Algorithm 2, lines 25 and 26.
A depth of 1 resembles EASY, a depth beyond the queue's length is conservative backfilling. The plan
is planning.py's. Behind it, in queue order, a job starts if it fits now and, for as long as it
plans to run, beside everything that was reserved. While a job drains the cluster, nothing does.
"""

from __future__ import annotations

from collections.abc import Iterable

from dq_server.core.config import SchedulerConfig
from dq_server.core.errors import ConfigError
from dq_server.core.jobs import Job
from dq_server.core.planning import INF, StartPlan, plan_starts
from dq_server.core.policies.base import Start
from dq_server.core.reasons import because
from dq_server.core.state import State


class ReservationsStart:
    """See the module's docstring."""

    promised = None

    def __init__(self, config: SchedulerConfig) -> None:
        if config.moldable:
            raise ConfigError(
                'start = "reservations" plans jobs on their initial size: moldable must be off'
            )

    def choose(
        self, state: State, queue: Iterable[Job], config: SchedulerConfig, now: float
    ) -> list[Start]:
        """See StartPolicy."""
        plan = plan_starts(
            state,
            queue,
            now,
            depth=config.reservation_depth,
            drain_priority=config.drain_priority,
        )
        idle = state.idle
        starts: list[Start] = []
        waiting: Job | None = None  # the first that must wait
        for planned in plan.jobs:
            job, initial = planned.job, planned.job.spec.initial
            if planned.start_s > now:
                waiting = waiting or job
                continue
            size = initial.size
            reason = because("started", size=size, idle=idle)
            if waiting is not None:
                why = f"nobody ahead of it is delayed, job {waiting.id} waits"
                reason = because("backfilled", size=size, idle=idle, why=why)
            starts.append(Start(job, initial, reason))
            idle -= size
        return starts if plan.floor_s > now else starts + _backfill(state, plan, idle, now)


def _backfill(state: State, plan: StartPlan, idle: int, now: float) -> list[Start]:
    """Jobs behind the planned ones that start now and disturb no reservation."""
    taken, capacity = plan.taken, state.processors.capacity
    starts: list[Start] = []
    for job in plan.rest:
        if idle <= 0:
            break
        size = job.spec.initial.size
        if size > idle:
            continue
        planned_s = job.spec.planned_on_s(size)
        end_s = INF if planned_s is None else now + planned_s
        if taken.max(now, end_s) + size > capacity:
            continue
        taken.add(now, end_s, size)
        why = f"it fits beside {len(plan.jobs)} planned jobs"
        starts.append(
            Start(job, job.spec.initial, because("backfilled", size=size, idle=idle, why=why))
        )
        idle -= size
    return starts
