"""Malleable EASY backfilling (MEBF): shrink jobs for waiting ones, expand when nobody waits.

Source: MEBF paper, section 3 (its pseudo-code is missing from the text; the prose has it all).
The start policy that belongs to it is EASY with moldable start. After each scheduling pass:

* Nobody waits and processors are idle: expand. The most scalable job first; how much it may get is
  what tells Handoff, Spare and Intensive apart (RESIZES).
* Somebody waits and nothing is idle: shrink. The least scalable job first; each gives up to
  `share` of its processors, until the job at the head of the queue can start. If all together do
  not make room for it they shrink all the same (`partial`): Algorithm 2 has no such condition, and
  what they free is the head's sooner, or meanwhile that of a job which ends before it can start. A
  job that was resized before is left alone.
* Somebody waits, some processors are idle, and none of the waiting jobs could be backfilled:
  `also` says whether to leave them (basic), to expand (expand+) or to shrink (shrink+).

Every resize must be feasible (`_feasible`). Choices where the text is silent: processors already on
their way to the head job are counted; an expansion must bring the job's end forward, its cost
included; a job's own run time estimate is what is left of its planned end, and a job without any
(no estimate, no walltime) is never resized. A job that does not say how it scales, as live ones, is
believed to scale as it was measured, or, as long as it ran on one size only, with `rho`; its
resizes cost what the last ones did.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.errors import ConfigError
from dq_server.core.model.jobs import Job, JobKind, smallest_start
from dq_server.core.model.options import Options
from dq_server.core.model.placing import growth
from dq_server.core.model.points import may_resize
from dq_server.core.model.reasons import because, declare
from dq_server.core.model.sizes import (
    Configuration,
    Scalability,
    largest_at_most,
    smallest_at_least,
)
from dq_server.core.model.state import Derived, State
from dq_server.core.planning import INF, free
from dq_server.core.policies.base import ResizePolicy, Verdict

declare(
    mebf_expand="{idle} are idle, {left_s:.0f} s are left: from {size} to {next_size}",
    mebf_shrink="job {head} waits: from {size} to {next_size}, {left_s:.0f} s are left",
    mebf_continue="other jobs are resized first, or no job needs a resize: stays on {size}, {idle}"
    " are idle",
    mebf_no_estimate="how long the job runs is not known, so it stays on {size}: submit it with"
    " --estimate or --walltime",
)

# What an expansion has to exceed, as a share of the job's processors (3.1, algorithms 4, 5, 6):
# Handoff makes only large ones, Intensive all; None: `mebf_spare_ratio`.
RESIZES = {"handoff": 1.0, "spare": None, "intensive": 0.0}


@dataclass(frozen=True, slots=True)
class MebfOptions(Options):
    """The paper's parameters.

    theta        a job is resized only if this share of its planned time is left
    gamma        and its run time grows to at most this multiple
    share        largest share of its processors that a job gives away in a shrink
    spare_ratio  for Spare, an expansion must exceed this share of the job's processors
    rho          scalability that a job is believed to have before it is measured (0: linear)
    partial      jobs shrink also if all together do not make room for the job that waits
    also         further use of idle processors that no queued job can use:
                 "", "expand" (expand+) or "shrink" (shrink+)
    """

    table = "mebf"
    short = {  # noqa: RUF012 - a ClassVar of the base
        "mebf_theta": "theta",
        "mebf_gamma": "gamma",
        "mebf_share": "share",
        "mebf_spare_ratio": "spare_ratio",
        "mebf_rho": "rho",
        "mebf_partial": "partial",
        "mebf_also": "also",
    }

    theta: float = 0.5
    gamma: float = 2.0
    share: float = 0.4
    spare_ratio: float = 0.5
    rho: float = 0.15
    partial: bool = True
    also: str = ""

    def validate(self) -> None:
        if not 0 <= self.theta <= 1 or not 0 < self.share < 1:
            raise ConfigError("mebf_theta and mebf_share are shares, from 0 to 1")
        if self.gamma < 1 or self.spare_ratio < 0:
            raise ConfigError("mebf_gamma must be at least 1, mebf_spare_ratio 0 or more")
        if not 0 <= self.rho < 1:
            raise ConfigError(f"mebf_rho = {self.rho}: from 0 (linear) to below 1")
        if self.also not in ("", "expand", "shrink"):
            raise ConfigError(f'mebf_also = {self.also!r}: "", "expand" or "shrink"')

    def suits(self, config: SchedulerConfig) -> None:
        if config.resize in RESIZES and config.start not in ("easy", "fcfs"):
            raise ConfigError(
                f'resize = "{config.resize}" makes room for the job at the head of the queue and'
                f' needs start = "easy" (or "fcfs"), not "{config.start}"'
            )
        if self.also and config.resize not in RESIZES:
            raise ConfigError(
                f'mebf_also = "{self.also}" belongs to resize = {", ".join(RESIZES)}, not'
                f' to "{config.resize}"'
            )


class Line(Derived):
    """Active malleable jobs whose run time is known, by scalability; ties: the older job first."""

    sign = 1  # -1: the least scalable first

    def __init__(self) -> None:
        super().__init__()
        self.jobs: list[tuple[float, int]] = []  # with `rho`
        self._rho: dict[int, float] = {}  # the same, by job

    def update(self, state: State, job_id: int, job: Job | None) -> None:
        before = self._rho.pop(job_id, None)
        if before is not None:
            del self.jobs[bisect_left(self.jobs, (before, job_id))]
        options = state.options(MebfOptions)
        if job is None or not self._belongs(job, options):
            return
        known = job.spec.scalability
        rho = options.rho if known is None else known.rho
        self._rho[job_id] = self.sign * rho
        insort(self.jobs, (self.sign * rho, job_id))

    def _belongs(self, job: Job, _options: MebfOptions) -> bool:
        return job.spec.kind is JobKind.MALLEABLE and job.spec.planned_s is not None

    def said(self) -> object:
        return self._rho, self.jobs


class Expandable(Line):
    """The most scalable first."""


class Shrinkable(Line):
    """Those that were never resized and have a smaller size, the least scalable first."""

    sign = -1

    def _belongs(self, job: Job, options: MebfOptions) -> bool:
        may = not job.resizes and super()._belongs(job, options)
        return may and _smaller(job, options).size < job.size


def _smaller(job: Job, options: MebfOptions) -> Configuration:
    """What a running job shrinks to; its own size if it can give nothing."""
    legal, size = job.spec.configurations, job.size
    found = smallest_at_least(legal, max(legal[0].size, size - int(options.share * size)))
    assert found is not None, "it runs on one that is no smaller"
    return found


class MebfResize(ResizePolicy):
    polls = False

    def __init__(self, name: str, config: SchedulerConfig) -> None:
        self._options = config.of(MebfOptions)
        ratio = RESIZES[name]
        self._ratio = self._options.spare_ratio if ratio is None else ratio

    def decide(self, state: State, job: Job, config: SchedulerConfig, now: float) -> Verdict:
        assert job.configuration is not None
        for chosen, target in self._resizes(state, config, now):
            if chosen is not job:
                continue
            size = job.size
            left_s = job.planned_end_s - now
            figures = {"size": size, "next_size": target.size, "left_s": left_s}
            if target.size > size:
                return Verdict(target, because("mebf_expand", idle=state.idle, **figures))
            head = state.head(now)
            assert head is not None
            return Verdict(target, because("mebf_shrink", head=head.id, **figures))
        if job.spec.planned_s is None:
            return Verdict(None, because("mebf_no_estimate", size=job.size))
        return Verdict(None, because("mebf_continue", size=job.size, idle=state.idle))

    def calls(self, state: State, config: SchedulerConfig, now: float) -> list[Job]:
        return [job for job, _ in self._resizes(state, config, now) if not job.called]

    def _resizes(
        self, state: State, config: SchedulerConfig, now: float
    ) -> Iterable[tuple[Job, Configuration]]:
        """Who shall be resized now, and to what; looked for as far as is asked."""
        head, idle = state.head(now), free(state, now, INF)
        if head is None:
            return self._expansions(state, idle, now)
        if not idle or self._options.also == "shrink":
            return self._shrinks(state, head, idle, config, now)
        if self._options.also == "expand":
            return self._expansions(state, idle, now)
        return ()

    def _expansions(
        self, state: State, idle: int, now: float
    ) -> Iterator[tuple[Job, Configuration]]:
        for job in self._enduring(state, Expandable.of(state), now) if idle else ():
            size = job.size
            room = min(idle, growth(state, job, job.spec.configurations[-1].size - size))
            if room <= max(0, self._ratio * size):
                continue
            target = largest_at_most(job.spec.configurations, size + room)
            assert target is not None, "it runs on a legal size"
            if target.size > size and _feasible(job, target, self._options, now):
                yield job, target
                idle -= target.size - size
                if not idle:
                    return

    def _shrinks(
        self, state: State, head: Job, idle: int, config: SchedulerConfig, now: float
    ) -> Iterable[tuple[Job, Configuration]]:
        room = head.spec.needed if head.spec.profile else smallest_start(head, config.moldable)
        needed = room - idle - state.incoming()
        giving = self._giving(state, needed, now)
        if self._options.partial:
            return giving
        chosen = list(giving)
        freed = sum(job.size - target.size for job, target in chosen)
        return chosen if freed >= needed else ()

    def _giving(self, state: State, needed: int, now: float) -> Iterator[tuple[Job, Configuration]]:
        """Who gives away what, until `needed` processors are found or nobody else can."""
        for job in self._enduring(state, Shrinkable.of(state), now) if needed > 0 else ():
            target = _smaller(job, self._options)
            if _feasible(job, target, self._options, now):
                yield job, target
                needed -= job.size - target.size
                if needed <= 0:
                    return

    def _enduring(self, state: State, line: Line, now: float) -> Iterator[Job]:
        """Those in line that may be resized and have long enough left to run."""
        theta = self._options.theta
        for _, job_id in line.jobs:
            job = state.active[job_id]
            planned_s = job.spec.planned_s
            assert planned_s is not None, "or it is not in line"
            if job.planned_end_s - now >= theta * planned_s and may_resize(state, job):
                yield job


def _believed(job: Job, options: MebfOptions) -> Scalability:
    """How a job scales that does not say so."""
    times = {shape.size: time_s for shape, time_s in job.performance.known.items()}
    if len(times) < 2:
        return Scalability(job.size, options.rho)
    return Scalability.fitted(times, min(times))


def _feasible(job: Job, target: Configuration, options: MebfOptions, now: float) -> bool:
    """Algorithm 3, its second part (the first is in `_enduring`).

    The estimated run time after the resize, its cost included, must not exceed gamma times the one
    without any resize.
    """
    assert job.start_s is not None
    size, next_size, end_s = job.size, target.size, job.planned_end_s
    known = job.spec.scalability
    if known is None:
        known = _believed(job, options)
        cost_s = max(job.performance.redistribution.values(), default=0.0)
    else:
        cost_s = known.overhead_s(size, next_size)
    new_end_s = now + cost_s + (end_s - now) * known.ratio(next_size) / known.ratio(size)
    if next_size > size:
        return new_end_s < end_s
    static_s = job.spec.planned_on_s(job.stays[0].configuration.size)
    assert static_s is not None
    return new_end_s - job.start_s <= options.gamma * static_s
