"""Strategies for malleable jobs: who starts on which size, who gives processors to whom.

Source: Posner, Hupfeld, Finnerty, "Enhancing Supercomputer Performance with Malleable Job
Scheduling Strategies" (PECS 2023, with its published code), and Zojer, Posner, Özden 2026
(arXiv:2602.17318), which adds *keep-preferred*. Every strategy is one set of `SharingOptions`.

1. Jobs start in queue order while they fit, on the size that `start` says (strategies.py).
2. For each job that waits, in queue order, running jobs give processors away, if all together they
   can give what it lacks (`Plan`, here). Nobody shrinks in vain.
3. What is idle after that, and kept for nobody, goes to running jobs (strategies.py).

Choices. The published code frees the whole size of a waiting job; here idle processors, and those
on their way, count first, because the rest would be freed for nobody. It reserves named nodes; here
processors are counted, and waiting jobs are served in queue order: `hand_on` says who may start on
what was freed. Shrinks take effect at a job's next remap point, so a plan is made anew whenever
something changes: the state is all that it depends on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import inf
from typing import Literal

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.errors import ConfigError
from dq_server.core.model.jobs import Job, adapts
from dq_server.core.model.options import Options
from dq_server.core.model.points import may_resize
from dq_server.core.model.sizes import Configuration, largest_at_most, smallest_at_least
from dq_server.core.model.state import State

SHARING = "sharing"  # the name of the start policy and of the resize policy


@dataclass(frozen=True, slots=True)
class SharingOptions(Options):
    """What tells the strategies apart.

    start       size that a job starts on: "min", "preferred" (or what is idle, if that is less), or
                "average" of its smallest and largest size (or what is idle)
    balance     which job expands first; jobs give processors in the reverse order:
                "min": the one with the fewest processors above its smallest size;
                "preferred": the one that lacks most of its preferred size; no job passes it before
                all have it, and no job gives below it if that suffices;
                "average": the one with the smallest share of its range, size by size;
                "remaining": the one that ends first, while what it gets is half efficient at least;
                then as "min"; only jobs that end earlier for it
    hand_on     the job that starts on freed processors: "agreement": the job for which they were
                freed, in queue order; "steal": whichever of those jobs fits first; "pool": any job
    beyond      when jobs expand beyond their preferred size: "always", while no job "waits",
                "never"
    patience_s  how long the first waiting job may be passed by jobs behind it that are served; from
                then on they are only backfilled (EASY), which does not delay it. +inf, as in the
                published code: a large job may be passed for as long as small ones are submitted
    shortest    of the jobs behind the first one those that plan to run shortest come first
    """

    table = SHARING

    start: Literal["min", "preferred", "average"] = "min"
    balance: Literal["min", "preferred", "average", "remaining"] = "min"
    hand_on: Literal["pool", "agreement", "steal"] = "pool"
    beyond: Literal["always", "waits", "never"] = "always"
    patience_s: float = inf
    shortest: bool = False

    def validate(self) -> None:
        if not self.patience_s >= 0:
            raise ConfigError(f"[scheduler.sharing] patience_s = {self.patience_s}: 0 or more s")

    def suits(self, config: SchedulerConfig) -> None:
        if (config.start == SHARING) != (config.resize == SHARING):
            raise ConfigError(
                f'start = "{config.start}" and resize = "{config.resize}": "sharing" starts and'
                ' resizes jobs by one plan, so both must be "sharing"'
            )


def smallest(job: Job) -> Configuration:
    """The smallest configuration that the job starts on."""
    return job.spec.configurations[0] if adapts(job, moldable=True) else job.preferred


def starting(job: Job, idle: int, options: SharingOptions) -> Configuration | None:
    """The configuration to start on with `idle` processors; None: they are too few."""
    least = smallest(job)
    if least.size > idle:
        return None
    if options.start == "min" or not adapts(job, moldable=True):
        return least
    legal = job.spec.configurations
    wanted = job.preferred.size
    if options.start == "average":
        wanted = (least.size + legal[-1].size) // 2
    return largest_at_most(legal, min(wanted, idle)) or least


def in_line(waiting: Iterable[Job], options: SharingOptions) -> list[Job]:
    """The waiting jobs in the order in which they are served, the first of the queue first."""
    jobs = list(waiting)
    if options.shortest and len(jobs) > 2:
        jobs[1:] = sorted(jobs[1:], key=_planned_s)
    return jobs


def _planned_s(job: Job) -> tuple[float, int]:
    """How long it plans to run on the smallest size that it starts on; last if that is unknown."""
    planned_s = job.spec.planned_on_s(smallest(job).size)
    return (inf if planned_s is None else planned_s), job.id


@dataclass(slots=True, eq=False)
class Giver:
    """A running job that may give processors away, on the size that the plan leaves it so far."""

    job: Job
    size: int
    least: int
    most: int

    @classmethod
    def of(cls, job: Job) -> Giver:
        """As it runs now."""
        legal = job.spec.configurations
        return cls(job, len(job.allocation), legal[0].size, legal[-1].size)

    @property
    def preferred(self) -> int:
        """The size that its user asked for, which may be none of its legal ones."""
        return min(max(self.job.spec.initial.size, self.least), self.most)

    def fill(self, size: int) -> float:
        """Which share of its range it holds on that size."""
        return (size - self.least) / max(1, self.most - self.least)


# Who expands first, by balance; the last gives first. "average" goes size by size instead.
# Ties: the older job expands, the younger one gives.
EXPANDS: dict[str, Callable[[Giver], tuple[float, int]]] = {
    "min": lambda g: (g.size - g.least, g.job.id),
    "preferred": lambda g: (g.size - g.preferred, g.job.id),
    "remaining": lambda g: (g.job.planned_end_s, g.job.id),
}


@dataclass(frozen=True, slots=True)
class Served:
    """A waiting job that starts on `configuration` as soon as enough processors are idle.

    kept  idle ones that wait with it
    """

    job: Job
    configuration: Configuration
    kept: int


@dataclass(slots=True)
class Plan:
    """Who is served, and who gives away what for whom.

    gives    giver -> its next configuration and the job that gets the difference
    blocked  the first waiting job that cannot be served; None: all are, or nobody waits
    """

    served: list[Served] = field(default_factory=list)
    gives: dict[int, tuple[Configuration, Job]] = field(default_factory=dict)
    blocked: Job | None = None

    @property
    def kept(self) -> int:
        """Idle processors that wait with the jobs that are served."""
        return sum(served.kept for served in self.served)


def plan(
    state: State, waiting: Iterable[Job], idle: int, options: SharingOptions, now: float
) -> Plan:
    """Serve the jobs that wait, in order, with what is idle, on its way, or can be given."""
    made, coming = Plan(), state.incoming()
    givers = [Giver.of(job) for job in state.active.values() if may_resize(state, job)]
    waiting = in_line(waiting, options)
    spare = sum(giver.size - giver.least for giver in givers)
    for job in waiting:
        there, found = idle + coming, None
        if smallest(job).size <= there + spare:
            found = _served(job, there, givers, options)
        if found is None:
            made.blocked = made.blocked or job
            if now - waiting[0].submit_s >= options.patience_s or not there + spare:
                break
            continue
        configuration, gives = found
        for giver, target in gives.items():
            coming += giver.size - target.size
            spare -= giver.size - target.size
            giver.size = target.size
            made.gives[giver.job.id] = (target, job)
        kept = min(idle, configuration.size)
        idle -= kept
        coming -= configuration.size - kept
        made.served.append(Served(job, configuration, kept))
    return made


def _served(
    job: Job, there: int, givers: list[Giver], options: SharingOptions
) -> tuple[Configuration, dict[Giver, Configuration]] | None:
    """The configuration for a waiting job, and who gives for it; None: too little can be given."""
    least = smallest(job)
    levels = [(least, False)]
    if options.balance == "preferred":
        wanted = starting(job, 2**62, options) or least
        levels = [(wanted, True), (least, True), (least, False)]
    for configuration, spare in levels:
        gives = _given(configuration.size - there, givers, options, keep_preferred=spare)
        if gives is not None:
            # What is there in excess is the job's, too, up to the size that it would start on.
            freed = sum(g.size - target.size for g, target in gives.items())
            return starting(job, there + freed, options) or configuration, gives
    return None


def _given(
    lacking: int, givers: list[Giver], options: SharingOptions, *, keep_preferred: bool
) -> dict[Giver, Configuration] | None:
    """Who shrinks to what, so that `lacking` processors are freed; None: all together cannot."""
    chosen: dict[Giver, Configuration] = {}
    if lacking <= 0:
        return chosen
    floors = {g: g.preferred if keep_preferred else g.least for g in givers}
    able = [g for g, floor in floors.items() if g.size > floor]
    if sum(g.size - floors[g] for g in able) < lacking:
        return None
    if options.balance == "average":
        return _evenly(lacking, able)
    for giver in sorted(able, key=EXPANDS[options.balance], reverse=True):
        legal, floor = giver.job.chain, floors[giver]
        target = largest_at_most(legal, giver.size - lacking)
        if target is None or target.size < floor:
            target = smallest_at_least(legal, floor)
        assert target is not None, "it runs on one that is no smaller"
        if target.size < giver.size:
            chosen[giver] = target
            lacking -= giver.size - target.size
        if lacking <= 0:
            return chosen
    return None


def _evenly(lacking: int, givers: list[Giver]) -> dict[Giver, Configuration]:
    """The job with the largest share of its range goes to its next smaller size, repeatedly.

    All of them together can give what is lacking.
    """
    chosen: dict[Giver, Configuration] = {}
    line = [(-giver.fill(giver.size), -giver.job.id, giver.size, giver) for giver in givers]
    heapify(line)
    while lacking > 0:
        *_, size, giver = heappop(line)
        target = largest_at_most(giver.job.chain, size - 1)
        assert target is not None, "it is above its smallest"
        lacking -= size - target.size
        chosen[giver] = target
        if target.size > giver.least:
            heappush(line, (-giver.fill(target.size), -giver.job.id, target.size, giver))
    return chosen
