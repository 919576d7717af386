"""Malleable EASY backfilling (MEBF): shrink jobs for waiting ones, expand when nobody waits.

Source: MEBF paper, section 3 (its pseudo-code is missing from the text; the prose has it all).
The start policy that belongs to it is EASY with moldable start. After each scheduling pass:

* Nobody waits and processors are idle: expand. The most scalable job first; how much it may get is
  what tells Handoff, Spare and Intensive apart (`_granted`).
* Somebody waits and nothing is idle: shrink. The least scalable job first; each gives up to
  `mebf_share` of its processors, until the job at the head of the queue can start. A job that was
  resized before is left alone.
* Somebody waits, some processors are idle, and none of the waiting jobs could be backfilled:
  `mebf_also` says whether to leave them (basic), to expand (expand+) or to shrink (shrink+).

Every resize must be feasible (`_feasible`). Choices where the text is silent: jobs shrink only if
together they make room for the head job; processors already on their way to it are counted; an
expansion must bring the job's end forward, its cost included; jobs without a scalability model are
never resized; a job's own run time estimate is what is left of its planned end.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Iterator
from operator import attrgetter

from dq_server.core.config import SchedulerConfig
from dq_server.core.jobs import Job, JobKind, JobState
from dq_server.core.policies.base import Verdict
from dq_server.core.policies.fitting import smallest_start
from dq_server.core.reasons import because
from dq_server.core.sizes import Configuration
from dq_server.core.state import State

_size = attrgetter("size")


def _at_most(job: Job, size: int) -> Configuration | None:
    """The job's largest legal configuration of at most `size` processors."""
    k = bisect_right(job.spec.configurations, size, key=_size)
    return job.spec.configurations[k - 1] if k else None


def _at_least(job: Job, size: int) -> Configuration:
    """The job's smallest legal configuration of at least `size`; it is on one that is larger."""
    k = bisect_right(job.spec.configurations, size - 1, key=_size)
    return job.spec.configurations[k]


# How many processors a job on `size` gets out of `offered`; 0: it is left as it is.
Grant = Callable[[int, int, SchedulerConfig], int]


def handoff(size: int, offered: int, config: SchedulerConfig) -> int:  # noqa: ARG001
    """Only large expansions: more than the job has now (3.1, algorithm 4)."""
    return offered if offered > size else 0


def spare(size: int, offered: int, config: SchedulerConfig) -> int:
    """More than `mebf_spare_ratio` of what the job has (3.1, algorithm 5)."""
    return offered if offered > config.mebf_spare_ratio * size else 0


def intensive(size: int, offered: int, config: SchedulerConfig) -> int:  # noqa: ARG001
    """All that is idle (3.1, algorithm 6)."""
    return offered


class MebfResize:
    """See the module's docstring."""

    polls = False

    def __init__(self, grant: Grant) -> None:
        self._grant = grant
        # Jobs that may be resized, most scalable first: (rho, job id). A job leaves for good when
        # it ends, is past half its time, or was resized and cannot grow.
        self._candidates: list[tuple[float, int]] = []
        self._seen: set[int] = set()

    def decide(self, state: State, job: Job, config: SchedulerConfig, now: float) -> Verdict:
        """See ResizePolicy."""
        assert job.configuration is not None
        for candidate, target in self._resizes(state, config, now):
            if candidate is not job:
                continue
            size = job.size
            left_s = job.planned[0] - now if job.planned else 0.0
            figures = {"size": size, "next_size": target.size, "left_s": left_s}
            head = state.head()
            if target.size > size:
                return Verdict(target, because("mebf_expand", idle=state.idle, **figures))
            assert head is not None
            return Verdict(target, because("mebf_shrink", head=head.id, **figures))
        return Verdict(None, because("mebf_continue", size=job.size, idle=state.idle))

    def calls(self, state: State, config: SchedulerConfig, now: float) -> list[Job]:
        """See ResizePolicy."""
        return [job for job, _ in self._resizes(state, config, now) if not job.called]

    def _resizes(
        self, state: State, config: SchedulerConfig, now: float
    ) -> list[tuple[Job, Configuration]]:
        """Who shall be resized now, and to what."""
        head, idle = state.head(), state.idle
        if head is None:
            return self._expansions(state, idle, config, now) if idle else []
        if not idle or config.mebf_also == "shrink":
            return self._shrinks(state, head, idle, config, now)
        if config.mebf_also == "expand":
            return self._expansions(state, idle, config, now)
        return []

    def _expansions(
        self, state: State, idle: int, config: SchedulerConfig, now: float
    ) -> list[tuple[Job, Configuration]]:
        chosen: list[tuple[Job, Configuration]] = []
        for job in self._running(state, config, now):
            size = job.size
            offered = min(job.spec.configurations[-1].size - size, idle)
            granted = self._grant(size, offered, config)
            if granted <= 0:
                continue
            target = _at_most(job, size + granted)
            if target is None or target.size <= size or not _feasible(job, target, config, now):
                continue
            chosen.append((job, target))
            idle -= target.size - size
            if not idle:
                break
        return chosen

    def _shrinks(
        self, state: State, head: Job, idle: int, config: SchedulerConfig, now: float
    ) -> list[tuple[Job, Configuration]]:
        needed = smallest_start(head, config.moldable) - idle - state.incoming()
        if needed <= 0:
            return []
        chosen: list[tuple[Job, Configuration]] = []
        for job in reversed(list(self._running(state, config, now))):
            if job.resizes:
                continue
            size = job.size
            smallest = job.spec.configurations[0].size
            least = max(smallest, size - int(config.mebf_share * size))
            if least >= size:
                continue
            target = _at_least(job, least)
            if target.size >= size or not _feasible(job, target, config, now):
                continue
            chosen.append((job, target))
            needed -= size - target.size
            if needed <= 0:
                return chosen
        return []

    def _running(self, state: State, config: SchedulerConfig, now: float) -> Iterator[Job]:
        """Malleable jobs that may be resized, most scalable first; forgets the others."""
        self._notice(state)
        kept: list[tuple[float, int]] = []
        jobs: list[Job] = []
        for entry in self._candidates:
            job = state.active.get(entry[1])
            if job is None or not _may_still(job, config, now):
                continue
            kept.append(entry)
            if job.resize is None and job.state is not JobState.KILLING:
                jobs.append(job)
        self._candidates = kept
        return iter(jobs)

    def _notice(self, state: State) -> None:
        """Take in the jobs that started since the last time."""
        seen = self._seen
        for job_id in reversed(state.active):
            if job_id in seen:
                break
            seen.add(job_id)
            spec = state.active[job_id].spec
            if spec.kind is JobKind.MALLEABLE and spec.scalability is not None:
                insort(self._candidates, (spec.scalability.rho, job_id))
        if len(seen) > 2 * len(state.active) + 64:
            seen &= state.active.keys()


def _may_still(job: Job, config: SchedulerConfig, now: float) -> bool:
    """Whether the job may be resized now or later: enough of it is left, and a size to go to."""
    if job.resizes and job.size >= job.spec.configurations[-1].size:
        return False
    planned_s = job.spec.planned_s
    if job.planned is None or planned_s is None:
        return False
    return job.planned[0] - now >= config.mebf_theta * planned_s


def _feasible(job: Job, target: Configuration, config: SchedulerConfig, now: float) -> bool:
    """Algorithm 3: long enough left (see `_may_still`), and not more than gamma times the time.

    The estimated run time after the resize, its cost included, over the one without any resize.
    """
    known = job.spec.scalability
    assert known is not None and job.planned is not None and job.start_s is not None
    size, end_s = job.size, job.planned[0]
    cost_s = known.overhead_s(size, target.size)
    new_end_s = now + cost_s + (end_s - now) * known.ratio(target.size) / known.ratio(size)
    if target.size > size:
        return new_end_s < end_s
    first = job.stays[0].configuration.size
    static_s = job.spec.planned_on_s(first)
    assert static_s is not None
    return new_end_s - job.start_s <= config.mebf_gamma * static_s
