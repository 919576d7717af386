"""What granting processors to a running job would do to the jobs that wait.

Source: Prabhakaran et al. 2014, III-C: the plan of the waiting jobs with the request and without
it; the difference is what each of them would be delayed by.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import nextafter

from dq_server.core.model.fairness import Delay, DfsConfig
from dq_server.core.model.jobs import Job
from dq_server.core.model.pool import prospect
from dq_server.core.model.stepfunction import StepFunction
from dq_server.core.planning import INF, StartPlan, plan_starts, running
from dq_server.core.turn import Turn

ROUNDING_S = 1e-6  # a shorter delay comes from adding floating-point numbers


class Outlook:
    """The plan of the waiting jobs; made when first asked for, kept while requests are served."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._dfs = turn.options(DfsConfig)
        self._running: StepFunction | None = None
        self._plan: StartPlan | None = None

    def running(self) -> StepFunction:
        """Processors taken by running jobs, granted requests included."""
        if self._running is None:
            self._running = running(self._turn.state, self._turn.now)
        return self._running

    def _planned(self, queue: Iterable[Job], depth: float, taken: StepFunction) -> StartPlan:
        turn, config = self._turn, self._turn.config
        return plan_starts(
            turn.state,
            queue,
            turn.now,
            depth=depth,
            drain_priority=config.drain_priority,
            moldable=config.moldable,
            taken=taken,
        )

    def plan(self) -> StartPlan:
        """How the waiting jobs start if nothing more is granted."""
        if self._plan is None:
            line = self._turn.state.line(self._turn.now)
            depth = self._dfs.reservation_delay_depth
            self._plan = self._planned(line, depth, self.running().copy())
        return self._plan

    def delays(self, job: Job, more: int) -> list[Delay]:
        """By how much the planned jobs would be delayed if `job` had `more` until its end.

        Jobs of the same user are left out.
        """
        before, now = self.plan(), self._turn.now
        with_more = self.running().copy()
        with_more.add(now, end_of(job, now), more)
        after = self._planned([planned.job for planned in before.jobs], INF, with_more)
        # Behind a job that drains the machine and never gets it now, nothing is planned.
        late = {planned.job.id: planned.start_s for planned in after.jobs}
        counts_now = self._dfs.count_start_now
        return [
            Delay(
                planned.job.id,
                planned.job.spec,
                _delay(planned.start_s, late.get(planned.job.id, INF)),
            )
            for planned in before.jobs
            if counts_now or planned.start_s > now
            if not planned.job.spec.user or planned.job.spec.user != job.spec.user
        ]

    def granted(self) -> None:
        """A request was granted: what was planned no longer holds."""
        self._running = self._plan = None

    def available_s(self, job: Job, more: int) -> float | None:
        """When `more` can be had until the job's end, delaying no planned job; None: never."""
        policy, now = self._turn.policies.grant, self._turn.now
        if not policy.may_change:
            return None
        taken = self.plan().taken if policy.measures else self.running()
        end_s = end_of(job, now)
        capacity = prospect(self._turn.state)
        from_s = taken.last_excess_end(capacity - more, now, end_s)
        return None if from_s >= end_s else max(from_s, now)


def end_of(job: Job, now: float) -> float:
    """When the running job's processors are expected back, later than now."""
    return max(job.planned_end_s, nextafter(now, INF))


def _delay(before_s: float, after_s: float) -> float:
    delay_s = after_s - before_s if before_s < INF else 0.0
    return delay_s if delay_s > ROUNDING_S else 0.0
