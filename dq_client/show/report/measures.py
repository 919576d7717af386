"""Metrics derived from a report's data: waits, turnarounds, gains, utilization."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from dq_client.show.report.data import JobTimeline, Report, ReportedJob, SizeStay


@dataclass(frozen=True, slots=True)
class Fastest:
    """The fastest size known for a job."""

    processors: int
    iteration_time_s: float
    sweet_spot: bool  # a larger size was tried and did not pay


@dataclass(frozen=True, slots=True)
class JobTimes:
    """Seconds; None if that has not happened yet."""

    wait_s: float | None  # submission to start
    run_s: float | None  # start to end
    turnaround_s: float | None  # submission to end
    redistribution_s: float  # moving data, all resizes


@dataclass(frozen=True, slots=True)
class Resizes:
    """How often a job was resized. A restart on another size is not a resize."""

    expansions: int
    shrinks: int
    regrids: int  # to another grid of the same processors

    @property
    def total(self) -> int:
        """All of them."""
        return self.expansions + self.shrinks + self.regrids


@dataclass(frozen=True, slots=True)
class RunTimes:
    """Over all jobs. `makespan_s`: first submission to last end (or to now, if some go on)."""

    makespan_s: float | None
    mean_wait_s: float | None
    mean_turnaround_s: float | None
    used_pct: float | None  # processor seconds held, of those available in the makespan


def job_times(job: ReportedJob) -> JobTimes:
    """The times of one job."""
    start, end = job.start_s, job.end_s
    return JobTimes(
        wait_s=None if start is None else start - job.submit_s,
        run_s=None if start is None or end is None else end - start,
        turnaround_s=None if end is None else end - job.submit_s,
        redistribution_s=sum(stay.redistribution_time_s for stay in job.sizes),
    )


def resizes(job: ReportedJob) -> Resizes:
    """Resizes, counted between consecutive stays."""
    pairs = [(a, b) for a, b in pairwise(job.sizes) if a.decision != "restart"]
    return Resizes(
        expansions=sum(b.processors > a.processors for a, b in pairs),
        shrinks=sum(b.processors < a.processors for a, b in pairs),
        regrids=sum(b.processors == a.processors and b.grid != a.grid for a, b in pairs),
    )


def run_times(report: Report) -> RunTimes:
    """The times of a run, over all its jobs."""
    jobs = report.jobs
    times = [job_times(job) for job in jobs]
    waits = [t.wait_s for t in times if t.wait_s is not None]
    turnarounds = [t.turnaround_s for t in times if t.turnaround_s is not None]
    makespan = used = None
    if jobs:
        last = max(job.end_s if job.end_s is not None else report.timeline.now_s for job in jobs)
        makespan = last - min(job.submit_s for job in jobs)
        available = makespan * report.timeline.capacity
        used = 100 * sum(map(held_s, report.timeline.jobs)) / available if available > 0 else None
    return RunTimes(
        makespan, fmean(waits) if waits else None, fmean(turnarounds) if turnarounds else None, used
    )


def held_s(line: JobTimeline) -> float:
    """Processor seconds a job has held."""
    return sum(size * (until - since) for (since, size), (until, _) in pairwise(line.steps))


def measured(job: ReportedJob) -> list[tuple[int, SizeStay, float]]:
    """Stays with an iteration time: (order of the visit from 1 on, stay, iteration time)."""
    found = []
    for order, stay in enumerate(job.sizes, 1):
        if stay.iteration_time_s is not None:
            found.append((order, stay, stay.iteration_time_s))
    return found


def has_curve(job: ReportedJob) -> bool:
    """A curve needs two sizes."""
    return len({stay.processors for _, stay, _ in measured(job)}) > 1


def fastest(job: ReportedJob) -> Fastest | None:
    """The sweet spot, else the fastest size seen; None if nothing was measured.

    The time is the latest one measured there.
    """
    latest = {stay.processors: time_s for _, stay, time_s in measured(job)}
    if job.sweet_spot in latest:
        return Fastest(job.sweet_spot, latest[job.sweet_spot], sweet_spot=True)
    if not latest:
        return None
    size = min(latest, key=lambda s: (latest[s], s))
    return Fastest(size, latest[size], sweet_spot=False)


def fastest_label(job: ReportedJob, best: Fastest) -> str:
    """The label of `best`."""
    if best.sweet_spot:
        return "sweet spot"
    return "fastest" if job.end_s is not None else "fastest so far"


def gains_pct(job: ReportedJob) -> list[float | None]:
    """Per stay: how much shorter an iteration became since the stay before, percent."""
    gains: list[float | None] = [None] * min(1, len(job.sizes))
    for before, after in pairwise(job.sizes):
        old, new = before.iteration_time_s, after.iteration_time_s
        gains.append(100 * (1 - new / old) if old and new is not None else None)
    return gains
