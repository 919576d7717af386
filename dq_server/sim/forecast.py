"""When will each waiting job start? Simulations from the state of a moment, with drawn run times.

A draw gives every job a run time: its planned time multiplied by what a job of the same user took
of its plan. A running job has run for a while already, so only such multiples count that reach
beyond. Each draw is one simulation; the starts of all of them give a
median and an interval for each job.

Jobs that will be submitted later delay those that wait now, by backfilling at least. Each draw has
submissions of the past for them: what was submitted from the same time of an earlier day on.
What is left out: jobs that are on hold or wait for others, and nodes that will come or go.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from dq_server.core.features.reservations import Booked
from dq_server.core.model.actions import StartJob
from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.events import AdvanceReservation
from dq_server.core.model.jobs import Job, JobKind, JobSpec, JobState
from dq_server.core.model.sizes import Scalability
from dq_server.core.scheduler import Scheduler
from dq_server.sim.applications import Application, Iterating, Rigid
from dq_server.sim.engine import Simulation
from dq_server.sim.errors import WorkloadError
from dq_server.sim.journal import JournalLine
from dq_server.sim.records import SimulatedJobs
from dq_server.sim.workload import ListedJob, ListedWorkload, RigidWorkload

OWN_LEAST = 5  # ended jobs of a user, before they speak for the user's next ones
REMEMBERED = 200  # ended jobs of a user, and of all users, that are drawn from
BLOCK = 5  # ended jobs that the jobs of a user are drawn from, in one draw
KEPT = 3000  # ended jobs, of a log
DAY_S, DAYS_BACK = 86_400.0, 14  # from which day back the later submissions of a draw are
HORIZON_S = 2 * DAY_S  # for how long they come
WIDER = 1.25  # the draws differ less than the days do: docs/results.md has what intervals hold
PARTS = 100  # remap points of a malleable job in a draw
FIRST_IN_LINE = 2**31  # running jobs, whatever their priority was


@dataclass(frozen=True, slots=True)
class Present:
    """A running or waiting job at the moment of the forecast.

    number  unique among the jobs
    ran_s   how long it has run; None: it waits
    shown   its number for people: in a log several jobs may have the same
    """

    number: int
    spec: JobSpec
    ran_s: float | None = None
    shown: int = 0


@dataclass(frozen=True, slots=True)
class Ended:
    """A job that has ended by itself, and when it was submitted (s)."""

    submit_s: float
    spec: JobSpec
    run_s: float


@dataclass(slots=True)
class PastJobs:
    """Jobs that have ended: what they took of their planned time, by user, and in seconds."""

    ratios: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    run_s: list[float] = field(default_factory=list)
    jobs: list[Ended] = field(default_factory=list)

    def add(self, job: Ended) -> None:
        """Take in the next job that has ended."""
        self.jobs.append(job)
        self.run_s.append(job.run_s)
        if planned_s := job.spec.planned_s:
            for of in (job.spec.user, ""):
                self.ratios[of].append(job.run_s / planned_s)

    def later(self, now: float, random: np.random.Generator) -> Iterator[tuple[float, Ended]]:
        """Submissions as they may come: in how many seconds, and a job like it."""
        if not self.jobs:
            return
        days = int((now - self.jobs[0].submit_s) // DAY_S)
        from_s = now - DAY_S * float(random.integers(1, min(days, DAYS_BACK) + 1) if days else 1)
        until_s = min(now, from_s + HORIZON_S)
        for job in self.jobs:
            if from_s < job.submit_s < until_s:
                yield job.submit_s - from_s, job


@dataclass(slots=True)
class RunTimes:
    """The run times of one draw. The jobs of a user are long or short together: those of one draw
    are from a few jobs of the user that ended one after the other (a block bootstrap: Künsch, "The
    jackknife and the bootstrap for general stationary observations", Annals of Statistics 17
    (1989), 1217-1241).
    """

    history: PastJobs
    random: np.random.Generator
    _blocks: dict[str, list[float]] = field(default_factory=dict)

    def of(self, job: Present) -> float:
        """Return a total run time, beyond what the job has run, from its user's or all jobs."""
        history, planned_s, ran_s = self.history, job.spec.planned_s, job.ran_s or 0.0
        for user in (job.spec.user, ""):
            ratios = history.ratios.get(user, [])[-REMEMBERED:]
            if planned_s and (len(ratios) >= OWN_LEAST or not user):
                for among in (self._block(user, ratios), ratios):
                    found = [ratio * planned_s for ratio in among if ratio * planned_s > ran_s]
                    if found:
                        return float(self.random.choice(found))
        if not planned_s:
            found = [run_s for run_s in history.run_s[-REMEMBERED:] if run_s > ran_s]
            if found:
                return float(self.random.choice(found))
        # Nothing like it has ended so late: it may end until its plan says, or take a while longer.
        left_s = max((planned_s or 0.0) - ran_s, 0.1 * ran_s, 1.0)
        return ran_s + float(self.random.uniform(0.0, left_s))

    def _block(self, user: str, ratios: list[float]) -> list[float]:
        """The same few for all jobs of a user."""
        if not user:
            return ratios
        if user not in self._blocks:
            first = int(self.random.integers(0, len(ratios)))
            # Around the end, so that each is drawn as often.
            self._blocks[user] = (ratios + ratios)[first : first + min(BLOCK, len(ratios))]
        return self._blocks[user]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What runs, waits (first in line first) and is reserved (times from now on) at a moment."""

    name: str
    now: float
    processors: int
    jobs: tuple[Present, ...]
    history: PastJobs
    reservations: tuple[AdvanceReservation, ...] = ()

    @property
    def waiting(self) -> list[Present]:
        """The jobs whose start is forecast."""
        return [job for job in self.jobs if job.ran_s is None]


@dataclass(frozen=True, slots=True)
class StartForecast:
    """Seconds from now until a job starts: median, and an interval that holds about 80 %.

    +inf: in so many draws it never starts.
    """

    earliest_s: float
    median_s: float
    latest_s: float


class _AllStarted(Exception):
    """What happens later changes no forecast."""


class _UntilStarted(Simulation):
    """A simulation that ends once all `waiting` jobs, numbered as in the workload, have started."""

    waiting: list[int]

    def run(self) -> SimulatedJobs:
        try:
            return super().run() if self.waiting else self.records
        except _AllStarted:
            return self.records

    def _start(self, action: StartJob) -> None:
        super()._start(action)
        start_s = self.records.start_s
        while not math.isnan(start_s[self.waiting[-1]]):
            self.waiting.pop()
            if not self.waiting:
                raise _AllStarted


def forecast(
    present: Snapshot, config: SchedulerConfig, *, draws: int, seed: int
) -> Mapping[int, StartForecast]:
    """Return when each waiting job starts under `config`, by its number."""
    random = np.random.default_rng(seed)
    starts: dict[int, list[float]] = {job.number: [] for job in present.waiting}
    for _ in range(draws):
        run_times = RunTimes(present.history, random)
        jobs = [_as_of_now(job, run_times.of(job)) for job in present.jobs]
        jobs += _later(present, random)
        drawn = ListedWorkload(present.name, jobs)
        reserved = present.reservations
        simulation = _UntilStarted(drawn, present.processors, config, reservations=reserved)
        simulation.waiting = [k for k, job in enumerate(drawn.jobs) if job.number in starts]
        records = simulation.run()
        for job, start_s in zip(drawn.jobs, records.start_s, strict=True):
            if job.number in starts:
                starts[job.number].append(math.inf if math.isnan(start_s) else start_s)
    return {number: _middle(sorted(values)) for number, values in starts.items()}


def _middle(starts: list[float]) -> StartForecast:
    """The median, and the quantiles 0.1 and 0.9, `WIDER` about it; no draw is earlier."""
    last = len(starts) - 1
    low, high = starts[math.floor(0.1 * last)], starts[math.ceil(0.9 * last)]
    median = starts[last // 2]
    if math.isinf(median):
        return StartForecast(low, median, high)
    earliest_s = max(starts[0], median - WIDER * (median - low))
    return StartForecast(earliest_s, median, median + WIDER * (high - median))


def _as_of_now(job: Present, run_s: float) -> ListedJob:
    """The job without what it has run, of `run_s` altogether."""
    spec, ran_s = job.spec, job.ran_s or 0.0
    left_s = run_s - ran_s
    planned_s = spec.planned_s
    if planned_s is not None:
        planned_s = max(planned_s - ran_s, 0.0)
    spec = replace(spec, estimate_s=planned_s, walltime_s=None)
    if job.ran_s is not None:
        spec = replace(spec, priority=FIRST_IN_LINE)

    def make() -> Application:
        if spec.kind is not JobKind.MALLEABLE:
            return Rigid(left_s)
        known, size = spec.scalability or Scalability(spec.initial.size, 0.0), spec.initial.size
        part_s = left_s / PARTS / known.ratio(size)
        return Iterating(PARTS, lambda at: part_s * known.ratio(at.size), known.overhead_s)

    return ListedJob(0.0, spec, make, job.number)


def _later(present: Snapshot, random: np.random.Generator) -> Iterator[ListedJob]:
    """Jobs that will be submitted; their numbers are nobody's."""
    for k, (in_s, like) in enumerate(present.history.later(present.now, random), start=1):
        job = Present(-k, like.spec)
        if like.spec.initial.size <= present.processors:
            yield replace(_as_of_now(job, like.run_s), submit_s=in_s)


# --- what there is at a moment ----------------------------------------------------------------


def of_log(jobs: RigidWorkload, played: SimulatedJobs, at_s: float) -> Snapshot:
    """Return the moment `at_s` of a log as it was played: what ran, waited and had ended."""
    history, running, waiting = PastJobs(), list[Present](), list[Present]()
    ended: list[tuple[float, int]] = []
    for k in range(len(jobs)):
        if jobs.submit_s[k] > at_s:
            break
        start_s, end_s = played.start_s[k], played.end_s[k]
        if end_s <= at_s:
            ended.append((end_s, k))
        elif start_s <= at_s:
            running.append(Present(k, jobs.spec(k), at_s - start_s, jobs.number(k)))
        elif start_s > at_s:
            waiting.append(Present(k, jobs.spec(k), None, jobs.number(k)))
    for _, k in sorted(ended)[-KEPT:]:
        history.add(Ended(jobs.submit_s[k], jobs.spec(k), jobs.run_s[k]))
    history.jobs.sort(key=lambda job: job.submit_s)
    return Snapshot(jobs.name, at_s, played.nodes, (*running, *waiting), history)


def of_journal(
    name: str, entries: Iterable[JournalLine], at_s: float | None = None
) -> tuple[Snapshot, SchedulerConfig]:
    """Return a server's newest moment, from its journal, and the configuration in force then.

    at_s  a moment after the last event, until which nothing has happened; default: that event's

    Of a cluster that is down: as if all its nodes, as many as were up at one time, came back now.
    """
    scheduler, history, now, most = Scheduler(), PastJobs(), 0.0, 0
    for entry in entries:
        before = set(scheduler.state.active)
        scheduler.handle(entry.event, entry.time)
        now = entry.time
        most = max(most, scheduler.state.processors.capacity)
        for job_id in before - scheduler.state.active.keys():
            _remember(history, scheduler.state.jobs.get(job_id), now)
    now = now if at_s is None else max(now, at_s)
    state = scheduler.state
    if not most:
        raise WorkloadError(f"{name}: no node ever joined")
    running = [_running(job, now) for job in state.active.values() if job.start_s is not None]
    waiting = [Present(job.id, job.spec, None, job.id) for job in state.line(now)]
    reserved = tuple(
        replace(r, start_s=max(0.0, r.start_s - now), end_s=r.end_s - now)
        for r in Booked.of(state).by_name.values()
        if r.end_s > now
    )
    jobs = (*running, *waiting)
    processors = state.processors.capacity or most  # the cluster is down: as it was
    history.jobs.sort(key=lambda job: job.submit_s)
    return Snapshot(name, now, processors, jobs, history, reserved), scheduler.config


def _remember(history: PastJobs, job: Job | None, now: float) -> None:
    if job is not None and job.state is JobState.DONE and job.start_s is not None:
        spec = replace(job.spec, after=(), after_any=(), after_not=(), reservation="", hold=False)
        history.add(Ended(job.submit_s, spec, now - job.start_s))


def _running(job: Job, now: float) -> Present:
    """As if it had been submitted on the size that it has."""
    assert job.configuration is not None and job.start_s is not None, "it is active"
    spec, known = job.spec, job.spec.scalability
    times = {grid.size: time_s for grid, time_s in job.performance.known.items()}
    if known is None and times:
        known = Scalability.fitted(times, min(times))
    legal = spec.configurations
    if job.configuration not in legal:
        legal = tuple(sorted({*legal, job.configuration}, key=lambda c: c.size))
    planned_s = None if math.isinf(job.planned_end_s) else job.planned_end_s - job.start_s
    spec = replace(
        spec, initial=job.configuration, configurations=legal, scalability=known, profile=(),
        estimate_s=planned_s, reservation="",
    )  # fmt: skip
    return Present(job.id, spec, now - job.start_s, job.id)
