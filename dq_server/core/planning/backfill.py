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

What room there is, a `Room` knows: shadow.py beside one promise, timeline.py beside any number.

Choices where the text is silent. A job that can never start as far as anybody knows (it is larger
than what is up, or what it waits for has no planned end) is promised nothing and holds up nobody;
one that is larger than what is up leaves its promise to the next.
Promises are for the size that a job prefers; with moldable start, one that would have to wait
starts now on the largest smaller size that breaks no promise.

Draining. While a job of at least `drain_priority` waits it is first in line and nothing else
starts: what stands behind it is planned after it (the full-machine jobs of the ESP benchmark).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from dq_server.core.model.decisions import Start
from dq_server.core.model.jobs import Job
from dq_server.core.model.reasons import because
from dq_server.core.model.sizes import Configuration

INF = float("inf")


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
