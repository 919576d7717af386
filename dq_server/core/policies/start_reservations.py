"""Start by plan: the first `reservation_depth` jobs that must wait get reservations.

Source: Prabhakaran et al. 2014, III-A (Maui's ReservationDepth) and Algorithm 2, lines 25 and 26.
A depth of 1 resembles EASY, a depth beyond the queue's length is conservative backfilling. The plan
is planning.py's. Behind it, in queue order, a job starts if it fits now and, for as long as it
plans to run, beside everything that was reserved. While a job drains the cluster, nothing does.
With moldable start a job that would have to wait starts smaller if that disturbs no reservation.
"""

from __future__ import annotations

from collections.abc import Iterable

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.fitting import smallest_start
from dq_server.core.model.jobs import Job
from dq_server.core.model.pool import prospect
from dq_server.core.model.reasons import because
from dq_server.core.model.sizes import Configuration
from dq_server.core.model.state import State
from dq_server.core.model.stepfunction import StepFunction
from dq_server.core.planning import INF, StartPlan, adapted, plan_starts
from dq_server.core.policies.base import Start, StartPolicy


class ReservationsStart(StartPolicy):
    """See the module's docstring."""

    def __init__(self, config: SchedulerConfig) -> None:
        self._moldable = config.moldable

    def choose(
        self, state: State, queue: Iterable[Job], config: SchedulerConfig, now: float
    ) -> list[Start]:
        """See StartPolicy."""
        return start_by_plan(
            state,
            queue,
            now,
            depth=config.reservation_depth,
            drain_priority=config.drain_priority,
            moldable=self._moldable,
        )


def start_by_plan(
    state: State,
    queue: Iterable[Job],
    now: float,
    *,
    depth: int,
    drain_priority: int | None = None,
    moldable: bool = False,
) -> list[Start]:
    """Who starts now by the plan of that depth, and who behind it disturbs nobody."""
    plan = plan_starts(
        state, queue, now, depth=depth, drain_priority=drain_priority, moldable=moldable
    )
    idle = state.idle
    starts: list[Start] = []
    waiting: Job | None = None  # the first that must wait
    for planned in plan.jobs:
        job, configuration = planned.job, planned.configuration
        if planned.start_s > now:
            waiting = waiting or job
            continue
        size = configuration.size
        reason = because("started", size=size, idle=idle)
        if waiting is not None:
            why = f"nobody ahead of it is delayed, job {waiting.id} waits"
            reason = because("backfilled", size=size, idle=idle, why=why)
        starts.append(Start(job, configuration, reason))
        idle -= size
    if plan.floor_s > now:
        return starts
    return starts + _backfill(state, plan, idle, now, moldable)


def _backfill(state: State, plan: StartPlan, idle: int, now: float, moldable: bool) -> list[Start]:
    """Jobs behind the planned ones that start now and disturb no reservation."""
    taken, capacity = plan.taken, prospect(state)
    starts: list[Start] = []
    for job in plan.rest:
        if idle <= 0:
            break
        if smallest_start(job, moldable) > idle:
            continue
        configuration = _beside(taken, job, capacity, now, moldable)
        if configuration is None:
            continue
        size = configuration.size
        why = f"it fits beside {len(plan.jobs)} planned jobs"
        reason = because("backfilled", size=size, idle=idle, why=why)
        starts.append(Start(job, configuration, reason))
        idle -= size
    return starts


def _beside(
    taken: StepFunction, job: Job, capacity: int, now: float, moldable: bool
) -> Configuration | None:
    """On what the job can start now beside everything taken; it is taken then."""
    initial, planned_s = job.preferred, job.spec.planned_s
    end_s = INF if planned_s is None else now + planned_s
    if taken.max(now, end_s) + initial.size <= capacity:
        taken.add(now, end_s, initial.size)
        return initial
    return adapted(taken, job, capacity, now) if moldable else None
