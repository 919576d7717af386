"""What granting processors to a running job would do to the jobs that wait.

Source: Prabhakaran et al. 2014, III-C: the plan of the waiting jobs with the request and without
it; the difference is what each of them would be delayed by.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import nextafter

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.jobs import Job
from dq_server.core.model.pool import prospect
from dq_server.core.model.requests import Delay, DfsConfig
from dq_server.core.model.state import State
from dq_server.core.model.stepfunction import StepFunction
from dq_server.core.planning.backfill import Promise, in_line, promises
from dq_server.core.planning.timeline import INF, ROUNDING_S, Timeline, running


class Delays:
    """The plan of the waiting jobs; made when first asked for, kept until something is granted.

    `depth`: for how many jobs that start later delays are measured.
    """

    def __init__(self, state: State, config: SchedulerConfig, now: float, depth: int) -> None:
        self._state, self._config, self._now, self._depth = state, config, now, depth
        self._running: StepFunction | None = None
        self._plan: tuple[list[Promise], StepFunction] | None = None

    def running(self) -> StepFunction:
        """Processors taken by running jobs, granted requests included."""
        if self._running is None:
            self._running = running(self._state, self._now)
        return self._running

    def _promises(self, queue: Iterable[Job], depth: float, taken: StepFunction) -> list[Promise]:
        drain_priority = self._config.drain_priority
        room = Timeline(self._state, self._now, moldable=self._config.moldable, taken=taken)
        line = in_line(queue, drain_priority)
        return promises(
            line, room, self._now, depth=depth, drain_priority=drain_priority, backfill=False
        )

    def plan(self) -> tuple[list[Promise], StepFunction]:
        """How the waiting jobs start if nothing more is granted, and what is taken then."""
        if self._plan is None:
            taken = self.running().copy()
            made = self._promises(self._state.line(self._now), self._depth, taken)
            self._plan = made, taken
        return self._plan

    def of(self, count: int, end_s: float) -> list[tuple[Promise, float]]:
        """Each planned start, and how much later (s) it is if `count` are taken until `end_s`."""
        if not self._state.queue:
            return []
        before, _ = self.plan()
        taken = self.running().copy()
        taken.add(self._now, end_s, count)
        after = self._promises([promise.job for promise in before], INF, taken)
        # Behind a job that drains the machine and never gets it now, nothing is planned.
        late = {promise.job.id: promise.start_s for promise in after}
        return [(p, _delay(p.start_s, late.get(p.job.id, INF))) for p in before]

    def of_others(self, job: Job, more: int) -> list[Delay]:
        """By how much others' jobs would be delayed if `job` had `more` until its end.

        Jobs of the same user are left out.
        """
        counts_now = self._config.of(DfsConfig).count_start_now
        return [
            Delay(promise.job.id, promise.job.spec, delay_s)
            for promise, delay_s in self.of(more, end_of(job, self._now))
            if counts_now or promise.start_s > self._now
            if not promise.job.spec.user or promise.job.spec.user != job.spec.user
        ]

    def granted(self) -> None:
        """A request was granted: what was planned no longer holds."""
        self._running = self._plan = None

    def available_s(self, job: Job, more: int, *, measures: bool) -> float | None:
        """When `more` can be had until the job's end; None: never.

        measures: without delaying a planned job
        """
        taken = self.plan()[1] if measures else self.running()
        end_s = end_of(job, self._now)
        from_s = taken.last_excess_end(prospect(self._state) - more, self._now, end_s)
        return None if from_s >= end_s else max(from_s, self._now)


def first_delayed(
    state: State, config: SchedulerConfig, now: float, count: int, end_s: float
) -> tuple[Job, float] | None:
    """The first waiting job that would start later if `count` idle processors were taken until
    `end_s`, and how much later (s); None: nobody."""
    delays = Delays(state, config, now, config.reservation_depth)
    found = delays.of(count, max(end_s, nextafter(now, INF)))
    return next(((p.job, delay_s) for p, delay_s in found if delay_s), None)


def end_of(job: Job, now: float) -> float:
    """When the running job's processors are expected back, later than now."""
    return max(job.planned_end_s, nextafter(now, INF))


def _delay(before_s: float, after_s: float) -> float:
    delay_s = after_s - before_s if before_s < INF else 0.0
    return delay_s if delay_s > ROUNDING_S else 0.0
