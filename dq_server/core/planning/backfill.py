"""The backfill loop: who starts now, and who is promised a start later.

FCFS, EASY, plans with reservations and conservative backfilling are one algorithm. Waiting jobs are
looked at in order. One for which there is room from now on, for as long as it plans to run, starts.
One for which there is none is promised the earliest start that breaks no earlier promise. When
`depth` jobs have a promise no more are made, and those behind them start only if they fit now.

    depth 0          FCFS: the first that does not fit stops the rest
    depth 1          EASY (Lifka 1995; Mu'alem & Feitelson 2001, section 2.2)
    depth n          Maui's ReservationDepth (Jackson et al. 2001; Prabhakaran et al. 2014, III-A,
                     Algorithm 2, lines 10, 25 and 26)
    depth unlimited  conservative (Mu'alem & Feitelson 2001, section 2.1)

What room there is, a `Room` knows: timeline.py.

Choices where the text is silent. A job that can never start as far as anybody knows (it is larger
than what is up, or what it waits for has no planned end) is promised nothing and holds up nobody;
one that is larger than what is up leaves its promise to the next.
Promises are for the size that a job prefers; with moldable start, one that would have to wait
starts now on the largest smaller size that breaks no promise.

Draining. While a job of at least `drain_priority` waits it is first in line and nothing else
starts: what stands behind it is planned after it (the full-machine jobs of the ESP benchmark).

Delays: what granting processors to a running job would do to the jobs that wait. Source:
Prabhakaran et al. 2014, III-C: the plan of the waiting jobs with the request and without it; the
difference is what each of them would be delayed by.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import nextafter
from typing import Protocol

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.decisions import Start
from dq_server.core.model.jobs import Job
from dq_server.core.model.pool import prospect
from dq_server.core.model.reasons import because
from dq_server.core.model.requests import Delay, DfsConfig
from dq_server.core.model.sizes import Configuration
from dq_server.core.model.state import State
from dq_server.core.model.stepfunction import StepFunction
from dq_server.core.planning.timeline import INF, ROUNDING_S, Timeline, running


@dataclass(frozen=True, slots=True)
class Promise:
    """A waiting job, from when (s; +inf: not in sight) it has processors, and how many."""

    job: Job
    start_s: float
    configuration: Configuration


class Room(Protocol):
    """Processors that are neither held nor promised, from now on.

    idle  that are idle now and not taken by `start`
    """

    idle: int

    def start(self, job: Job) -> Configuration | None:
        """On what the job can start now without breaking a promise, taken; None: it cannot."""

    def promise(self, job: Job, after_s: float) -> float | None:
        """The earliest start that breaks no promise, its processors taken.

        +inf: what it waits for has no planned end; None: it is larger than all that is up.
        """

    def passing(self, jobs: Iterator[Job]) -> Iterable[Job]:
        """Those of the waiting `jobs`, in order, that may find room once no promise is made."""


def in_line(queue: Iterable[Job], drain_priority: int | None) -> list[Job]:
    """The queue in planning order: draining jobs first, otherwise as it stands.

    Without the jobs with a profile: the feature that carries profiles out plans them.
    """
    jobs = [job for job in queue if not job.spec.profile]
    if drain_priority is None:
        return jobs
    first = [job for job in jobs if job.spec.priority >= drain_priority]
    if first:
        first += [job for job in jobs if job.spec.priority < drain_priority]
    return first or jobs


def promises(
    line: Iterable[Job],
    room: Room,
    now: float,
    *,
    depth: float,
    drain_priority: int | None = None,
    backfill: bool = True,
) -> list[Promise]:
    """The starts of the waiting jobs, in order: now, or promised; changes `room`.

    backfill  look at those behind the last promise, too
    """
    made: list[Promise] = []
    floor_s, later = now, 0  # nothing starts before floor_s (draining)
    jobs = iter(line)
    for job in jobs:
        configuration = room.start(job) if floor_s == now else None
        if configuration is not None:
            made.append(Promise(job, now, configuration))
            continue
        if not depth:
            return made
        start_s = room.promise(job, floor_s)
        made.append(Promise(job, INF if start_s is None else start_s, job.preferred))
        if start_s is None:
            continue
        later += 1
        if drain_priority is not None and job.spec.priority >= drain_priority:
            floor_s = start_s
        if later >= depth or floor_s == INF:
            break
    if backfill and floor_s == now:
        for job in room.passing(jobs):
            if not room.idle:
                break
            configuration = room.start(job)
            if configuration is not None:
                made.append(Promise(job, now, configuration))
    return made


def due(made: Iterable[Promise], idle: int, now: float) -> list[Start]:
    """Of promises in order, those of now, with reasons; `idle` processors before they start."""
    starts: list[Start] = []
    head: Promise | None = None  # the first that must wait
    for promise in made:
        job, configuration = promise.job, promise.configuration
        if promise.start_s > now:
            head = head or promise
            continue
        size = configuration.size
        reason = because("started", size=size, idle=idle)
        if head is not None:
            shadow_time_s, planned_s = head.start_s, job.spec.planned_on_s(size)
            in_time = planned_s is not None and now + planned_s <= shadow_time_s < INF
            why = f"it plans to end before job {head.job.id} can start"
            if not in_time:
                why = f"job {head.job.id} leaves them unused"
            figures = {"head": head.job.id, "shadow_time_s": shadow_time_s}
            reason = because("backfilled", size=size, idle=idle, why=why, **figures)
        starts.append(Start(job, configuration, reason))
        idle -= size
    return starts


def planned(
    state: State,
    queue: Iterable[Job],
    now: float,
    *,
    moldable: bool,
    depth: float,
    drain_priority: int | None = None,
) -> list[Start]:
    """The starts beside what features have promised to somebody."""
    room, line = Timeline(state, now, moldable=moldable), in_line(queue, drain_priority)
    made = promises(line, room, now, depth=depth, drain_priority=drain_priority)
    return due(made, state.idle, now)


class Delays:
    """The plan of the waiting jobs; made when first asked for, kept until something is granted.

    `depth`: for how many jobs that start later delays are measured.
    """

    def __init__(self, state: State, config: SchedulerConfig, now: float, depth: int) -> None:
        self._state, self._config, self._now, self._depth = state, config, now, depth

    @cached_property
    def running(self) -> StepFunction:
        """Processors taken by running jobs, granted requests included."""
        return running(self._state, self._now)

    def _promises(self, queue: Iterable[Job], depth: float, taken: StepFunction) -> list[Promise]:
        drain_priority = self._config.drain_priority
        room = Timeline(self._state, self._now, moldable=self._config.moldable, taken=taken)
        line = in_line(queue, drain_priority)
        return promises(
            line, room, self._now, depth=depth, drain_priority=drain_priority, backfill=False
        )

    @cached_property
    def plan(self) -> tuple[list[Promise], StepFunction]:
        """How the waiting jobs start if nothing more is granted, and what is taken then."""
        taken = self.running.copy()
        return self._promises(self._state.line(self._now), self._depth, taken), taken

    def of(self, count: int, end_s: float) -> list[tuple[Promise, float]]:
        """Each planned start, and how much later (s) it is if `count` are taken until `end_s`."""
        if not self._state.queue:
            return []
        before, _ = self.plan
        taken = self.running.copy()
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
        vars(self).pop("running", None)
        vars(self).pop("plan", None)

    def available_s(self, job: Job, more: int, *, measures: bool) -> float | None:
        """When `more` can be had until the job's end; None: never.

        measures: without delaying a planned job
        """
        taken = self.plan[1] if measures else self.running
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
