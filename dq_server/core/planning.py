"""When will the waiting jobs start? A plan with reservations, as Maui makes it.

Source: Prabhakaran et al. 2014, III-A and III-C (Algorithm 2, line 10); Jackson et al. 2001. Jobs
are looked at in queue order. One that fits now, and for as long as it plans to run, starts now (the
paper's StartNow). One that does not gets a reservation at the earliest time that disturbs nobody
before it (its StartLater). When `depth` jobs have one, planning stops: the rest may only be
backfilled.

Choices where the text is silent. A running job whose planned end has passed is expected to end at
any moment: just after now, so that nothing is started on what it still holds. A job that can never
start as far as anybody knows (it is larger than what is up, or what it waits for has no planned
end) gets no reservation and holds up nobody. Jobs are planned on their initial size; with moldable
start one that would have to wait starts now on the largest smaller size that disturbs nobody.

Draining. While a job of at least `drain_priority` waits it is first in line and nothing else
starts: what stands behind it is planned after it (the full-machine jobs of the ESP benchmark).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import nextafter

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.fitting import ADAPTABLE
from dq_server.core.model.jobs import Job
from dq_server.core.model.placing import room
from dq_server.core.model.pool import arrivals, prospect
from dq_server.core.model.sizes import Configuration, largest_at_most
from dq_server.core.model.state import State
from dq_server.core.model.stepfunction import StepFunction

INF = float("inf")
ROUNDING_S = 1e-6  # a shorter delay comes from adding floating-point numbers


@dataclass(frozen=True, slots=True)
class PlannedStart:
    """A waiting job, when it will start (+inf: not in sight) and on what."""

    job: Job
    start_s: float
    configuration: Configuration


@dataclass(slots=True)
class StartPlan:
    """What was planned, in order, and the processors taken over time by running and planned jobs.

    floor_s  nothing that was not planned starts before this time (draining)
    rest     jobs behind the planned ones, in order
    """

    taken: StepFunction
    jobs: list[PlannedStart]
    floor_s: float
    rest: list[Job]


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


def running(state: State, now: float, *, to_promise: bool = False) -> StepFunction:
    """Processors taken, over time from `now` on: held until a job's planned end, or promised.

    Of all that are up or on their way (model/pool.py, `prospect`).

    What features have promised to somebody (`promises`) is taken; of an active job only counts what
    is not part of such a promise (`beyond`). To promise something new (`to_promise`) running jobs
    are looked at differently: what is being vacated is free, and a job past its planned end is
    expected to take as long again as it is late.
    """
    promises = state.features.promises(state)
    base, covered, ends = 0, 0, []
    soon = nextafter(now, INF)
    for planned_end_s, job_id, holds in state.ends:
        end_s, held = planned_end_s, holds
        for promised in promises:
            job = state.active[job_id]
            end_s, held = promised.beyond(state, job, end_s, held, now, to_promise=to_promise)
        covered += holds - held
        if end_s == INF:
            base += held
        elif held > 0:
            late_s = now - end_s if to_promise else 0.0
            ends.append((max(end_s, soon, now + late_s), held))
    ends.sort()
    known = sum(held for _, held in ends)
    gone = state.processors.capacity - state.idle - known - base - covered
    # What is neither idle nor held is vacating: back at any moment, but not now, or a job would be
    # planned to start on processors that cannot be granted yet.
    if gone > 0 and not to_promise:
        ends.insert(0, (soon, gone))
        known += gone
    # Nodes on their way are taken until they are there. One that is late comes at any moment.
    coming = arrivals(state)
    if coming:
        ends = sorted([*ends, *((max(at_s, soon), count) for at_s, count in coming)])
        known += sum(count for _, count in coming)
    level = base + known
    segments = [(now, level)]
    for end_s, held in ends:
        level -= held
        if segments[-1][0] == end_s:
            segments.pop()
        segments.append((end_s, level))
    taken = StepFunction.of(segments)
    for promised in promises:
        promised.claims(state, taken, now, to_promise=to_promise)
    return taken


def free(state: State, now: float, until_s: float, job: Job | None = None) -> int:
    """Idle processors that can be used until then: they were not promised to anybody.

    With `job`: what that job may take, which a feature may say (`may_take`).
    """
    idle = state.idle if job is None else room(state, job)
    promises = state.features.promises(state) if idle else []
    if not promises:
        return idle
    if job is not None:
        for promised in promises:
            most_more = promised.may_take(state, job)
            if most_more is not None:
                return min(idle, most_more)
    most = running(state, now).max(now, max(until_s, nextafter(now, INF)))
    return max(0, min(idle, prospect(state) - int(most)))


def plan_starts(
    state: State,
    queue: Iterable[Job],
    now: float,
    *,
    depth: float,
    drain_priority: int | None = None,
    moldable: bool = False,
    taken: StepFunction | None = None,
) -> StartPlan:
    """Plan the queue until `depth` jobs start later; `taken` (changed): instead of `running`."""
    capacity = prospect(state)
    taken = running(state, now) if taken is None else taken
    line = in_line(queue, drain_priority)
    planned: list[PlannedStart] = []
    floor_s, later = now, 0
    for job in line:
        if later >= depth or floor_s == INF:
            break
        smaller = None
        if moldable and floor_s == now:
            smaller = adapted(taken, job, capacity, now)
        start_s = now if smaller else place(taken, job, capacity, floor_s)
        planned.append(PlannedStart(job, start_s, smaller or job.preferred))
        if start_s > now and job.preferred.size <= capacity:
            later += 1
            if drain_priority is not None and job.spec.priority >= drain_priority:
                floor_s = start_s
    return StartPlan(taken, planned, floor_s, line[len(planned) :])


def first_delayed(
    state: State, config: SchedulerConfig, now: float, count: int, end_s: float
) -> tuple[Job, float] | None:
    """The first waiting job that would start later if `count` idle processors were taken until
    `end_s`, and how much later (s); None: nobody."""
    if not state.queue:
        return None
    settings = {"drain_priority": config.drain_priority, "moldable": config.moldable}
    line = state.line(now)
    before = plan_starts(state, line, now, depth=config.reservation_depth, **settings)  # type: ignore[arg-type]
    taken = running(state, now)
    taken.add(now, max(end_s, nextafter(now, INF)), count)
    planned = [start.job for start in before.jobs]
    after = plan_starts(state, planned, now, depth=INF, taken=taken, **settings)  # type: ignore[arg-type]
    late = {start.job.id: start.start_s for start in after.jobs}
    for start in before.jobs:
        delay_s = late.get(start.job.id, INF) - start.start_s if start.start_s < INF else 0.0
        if delay_s > ROUNDING_S:
            return start.job, delay_s
    return None


def place(taken: StepFunction, job: Job, capacity: int, after_s: float) -> float:
    """The earliest start of a job; its processors are taken from then on. +inf: none, no change."""
    size, planned_s = job.preferred.size, job.spec.planned_on_s(job.preferred.size)
    duration_s = INF if planned_s is None else planned_s
    start_s = taken.earliest_window(capacity - size, duration_s, after_s)
    if start_s < INF:
        taken.add(start_s, start_s + duration_s, size)
    return start_s


def adapted(taken: StepFunction, job: Job, capacity: int, now: float) -> Configuration | None:
    """The largest configuration below the preferred one that fits from now on; it is taken then.

    Only for jobs that may adapt and whose preferred size does not fit now. (A smaller size runs
    longer, so it has to fit for longer: what is free then bounds every size below it, too.)
    """
    spec = job.spec
    if spec.kind not in ADAPTABLE:
        return None
    found: Configuration | None = job.preferred
    while found is not None:
        planned_s = spec.planned_on_s(found.size)
        end_s = INF if planned_s is None else now + planned_s
        free = capacity - int(taken.max(now, end_s))
        if found.size <= free:
            break
        found = largest_at_most(spec.configurations, min(free, found.size - 1))
    if found is None or found == job.preferred:
        return None
    taken.add(now, end_s, found.size)
    return found
