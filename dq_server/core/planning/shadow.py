"""Room beside one promise: EASY's shadow time and extra processors, found from the planned ends.

Shadow time: the earliest moment at which the processors that are idle then suffice for the head job
if every running job ends as planned. Extra processors: those that are idle at that moment beyond
what the head job needs. A later job finds room if it fits on the idle processors and plans to end
by the shadow time, or needs no more than the extra processors, which it then uses up. (Mu'alem &
Feitelson, IEEE TPDS 12(6), 2001, section 2.2.) Nodes of a pool that are on their way bring idle
processors when they are expected.

Choices where the text is silent: the head job waits for the fewest processors that it may start on;
all jobs planned to end exactly at the shadow time count for the extra processors; processors that
are being vacated are back at any moment, hence now, and so are those of a job that runs longer than
planned; if the ends that matter are not known the shadow time is +inf and only extra processors can
be used, so that a stream of short jobs cannot starve the head job.

Beside promises of features a `Timeline` answers the same questions; this is its short form for who
promises nothing else, and looks at no more ends than the head needs (benchmarks/simulator.py).
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import nextafter
from typing import TYPE_CHECKING

from dq_server.core.model.jobs import Job, adapts, fitting, smallest_start
from dq_server.core.model.pool import arrivals, prospect
from dq_server.core.model.sizes import Configuration, largest_at_most
from dq_server.core.model.state import State

if TYPE_CHECKING:
    from dq_server.core.planning.waiting_index import WaitingIndex

INF = float("inf")


@dataclass(slots=True)
class Reservation:
    """The head job's: `extra_nodes` are left for others from `shadow_time_s` on."""

    shadow_time_s: float
    extra_nodes: int

    def end_by(self, now: float) -> float:
        """When a backfilled job must end if it is to leave the extra processors alone."""
        return -INF if self.shadow_time_s == INF else max(self.shadow_time_s, now)


class Shadow:
    """See backfill.Room. `smaller`: who is backfilled may take less than it prefers, too.

    `index`: of the queue, which is in submission order; None: each waiting job is looked at.
    """

    def __init__(
        self,
        state: State,
        now: float,
        *,
        moldable: bool = False,
        smaller: bool = False,
        index: WaitingIndex | None = None,
    ) -> None:
        self.idle = state.idle
        self._state, self._now = state, now
        self._moldable, self._smaller, self._index = moldable, smaller, index
        self._started: list[tuple[float, int, int]] = []  # as State.ends, of who starts now
        self._held: Reservation | None = None
        self._end_by_s = INF

    def start(self, job: Job) -> Configuration | None:
        held = self._held
        if held is not None:
            return self._beside(job, held)
        configuration = fitting(job, self.idle, self._moldable)
        if configuration is not None:
            size = configuration.size
            self.idle -= size
            planned_s = job.spec.planned_on_s(size)
            end_s = INF if planned_s is None else self._now + planned_s
            self._started.append((end_s, job.id, size))
        return configuration

    def promise(self, job: Job, after_s: float) -> float | None:  # noqa: ARG002 - from now on
        """See Room; one job is promised a start."""
        state, now, ends = self._state, self._now, self._state.ends
        needed = smallest_start(job, self._moldable)
        if needed > prospect(state):
            return None
        if not self.idle:
            return INF  # nobody can use what the job would leave
        if self._started:
            ends = ends.copy()
            for end in self._started:
                insort(ends, end)
        self._held = held = reserve(state, ends, self.idle, needed, now)
        self._end_by_s = held.end_by(now)
        return max(held.shadow_time_s, nextafter(now, INF))

    def passing(self, jobs: Iterator[Job]) -> Iterable[Job]:
        index, held = self._index, self._held
        behind = next(jobs, None) if held is not None and index is not None else None
        if held is None or index is None or behind is None:
            return jobs
        index.sync(self._state)
        found = index.candidates(self.idle, self._now, self._end_by_s, held.extra_nodes)
        return (job for job in found if job.id >= behind.id)

    def _beside(self, job: Job, held: Reservation) -> Configuration | None:
        """The configuration to backfill on, taken; None: none."""
        idle = self.idle
        if smallest_start(job, self._moldable) > idle:
            return None
        configuration, extra = job.preferred, held.extra_nodes
        may_adapt = bool(self._smaller or job.restarts) and adapts(job, self._moldable)
        if configuration.size > idle:
            smaller = largest_at_most(job.spec.configurations, idle) if may_adapt else None
            if smaller is None:
                return None
            configuration = smaller
        if not self._in_time(job, configuration.size):
            if configuration.size > extra:
                on_extra = None
                if may_adapt and extra:
                    on_extra = largest_at_most(job.spec.configurations, extra)
                if on_extra is None:
                    return None
                configuration = on_extra
            held.extra_nodes -= configuration.size
        self.idle -= configuration.size
        return configuration

    def _in_time(self, job: Job, size: int) -> bool:
        planned_s = job.spec.planned_on_s(size)
        return planned_s is not None and self._now + planned_s <= self._end_by_s


def reserve(
    state: State, ends: list[tuple[float, int, int]], idle: int, needed: int, now: float
) -> Reservation:
    """The reservation of a head job that needs `needed` processors, more than the `idle` ones.

    `ends`: as State.ends, with those of jobs that start now.
    """
    coming = arrivals(state)
    if coming:  # as if jobs that nobody has submitted held them until then
        ends = sorted([*ends, *((at_s, 0, count) for at_s, count in coming)])
    free = idle + state.processors.coming
    if free >= needed:  # it waits for the word that they are empty, and for no job's end
        return _reserved_at(ends, 0, now, free - needed)
    for k, (end_s, _, held) in enumerate(ends):
        free += held
        if free >= needed:
            return _reserved_at(ends, k + 1, max(end_s, now), free - needed)
    return Reservation(INF, idle)


def _reserved_at(
    ends: list[tuple[float, int, int]], k: int, shadow_s: float, extra: int
) -> Reservation:
    """Add what else is planned to be back at the shadow time; ends[k:] were not looked at yet."""
    last = bisect_right(ends, (shadow_s, 2**62, 0), lo=k)
    return Reservation(shadow_s, extra + sum(held for _, _, held in ends[k:last]))
