"""Processors taken over time, from now on, and the room that they leave to waiting jobs.

`running`: taken is what is held until a planned end, or promised to somebody. Choices where the
papers are silent: a running job whose planned end has passed is expected to end
at any moment: just after now, so that nothing is started on what it still holds.

`Timeline`: room beside any number of promises.

`Shadow`: room beside one promise, EASY's shadow time and extra processors, found from the planned
ends. Shadow time: the earliest moment at which the processors that are idle then suffice for the
head job if every running job ends as planned. Extra processors: those that are idle at that moment
beyond what the head job needs. A later job finds room if it fits on the idle processors and plans
to end by the shadow time, or needs no more than the extra processors, which it then uses up.
(Mu'alem & Feitelson, IEEE TPDS 12(6), 2001, section 2.2.) Nodes of a pool that are on their way
bring idle processors when they are expected. It is the short form of a `Timeline` for who promises
nothing else, and looks at no more ends than the head needs (benchmarks/simulator.py).

Choices where the text is silent: the head job waits for the fewest processors that it may start on;
all jobs planned to end exactly at the shadow time count for the extra processors; processors that
are being vacated are back at any moment, hence now, and so are those of a job that runs longer than
planned; if the ends that matter are not known the shadow time is +inf and only extra processors can
be used, so that a stream of short jobs cannot starve the head job.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import nextafter
from typing import TYPE_CHECKING

from dq_server.core.model.jobs import Job, adapts, fitting, smallest_start
from dq_server.core.model.placing import growth, room
from dq_server.core.model.pool import arrivals, prospect
from dq_server.core.model.sizes import Configuration, largest_at_most
from dq_server.core.model.state import State
from dq_server.core.model.stepfunction import StepFunction

if TYPE_CHECKING:
    from dq_server.core.planning.waiting_index import WaitingIndex

INF = float("inf")
ROUNDING_S = 1e-6  # a shorter delay comes from adding floating-point numbers


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


def available(state: State, now: float, job: Job) -> int:
    """Idle processors that the running job may have until its planned end, on nodes that it can
    use and within its user's limits."""
    return growth(state, job, free(state, now, job.planned_end_s, job))


class Timeline:
    """See backfill.Room: room beside any number of promises."""

    def __init__(
        self, state: State, now: float, *, moldable: bool = False, taken: StepFunction | None = None
    ) -> None:
        """`taken` (changed): instead of `running`."""
        self.taken = running(state, now) if taken is None else taken
        self.idle = state.idle
        self.capacity: float = prospect(state)
        self._now, self._moldable = now, moldable

    def start(self, job: Job) -> Configuration | None:
        """See Room.

        A smaller size runs longer, so it has to find room for longer: what there is for a larger
        one bounds every size below it.
        """
        if smallest_start(job, self._moldable) > self.idle:
            return None
        spec, found = job.spec, job.preferred
        while True:
            free, end_s = self._free(job, found.size)
            if found.size <= free:
                break
            if not adapts(job, self._moldable):
                return None
            smaller = largest_at_most(spec.configurations, min(free, found.size - 1))
            if smaller is None:
                return None
            found = smaller
        self.taken.add(self._now, end_s, found.size)
        self.idle -= found.size
        return found

    def _free(self, job: Job, size: int) -> tuple[int, float]:
        """Processors free from now on for as long as the job plans to run on `size`; its end."""
        planned_s = job.spec.planned_on_s(size)
        end_s = INF if planned_s is None else self._now + planned_s
        most = self.taken.max(self._now, max(end_s, nextafter(self._now, INF)))
        return int(self.capacity - most), end_s

    def promise(self, job: Job, after_s: float) -> float | None:
        if job.preferred.size > self.capacity:
            return None
        size, planned_s = job.preferred.size, job.spec.planned_on_s(job.preferred.size)
        duration_s = INF if planned_s is None else planned_s
        start_s = self.taken.earliest_window(self.capacity - size, duration_s, after_s)
        self.keep(job, start_s)
        return start_s

    def keep(self, job: Job, start_s: float, times: int = 1) -> None:
        """Take the job's processors from then on; nothing for a start at +inf. -1: give back."""
        if start_s < INF:
            size, planned_s = job.preferred.size, job.spec.planned_on_s(job.preferred.size)
            end_s = INF if planned_s is None else start_s + planned_s
            self.taken.add(start_s, end_s, times * size)

    def passing(self, jobs: Iterator[Job]) -> Iterable[Job]:
        return jobs


@dataclass(slots=True)
class Reservation:
    """The head job's: `extra_nodes` are left for others from `shadow_time_s` on."""

    shadow_time_s: float
    extra_nodes: int

    def end_by(self, now: float) -> float:
        """When a backfilled job must end if it is to leave the extra processors alone."""
        return -INF if self.shadow_time_s == INF else max(self.shadow_time_s, now)


class Shadow:
    """See backfill.Room.

    moldable  the first in line may take less than it prefers
    smaller   who is backfilled may, too
    fits      the configuration to start on with so many processors, moldable or not; None: too few
    index     of the queue, which is in submission order; None: each waiting job is looked at
    """

    def __init__(
        self,
        state: State,
        now: float,
        *,
        moldable: bool = False,
        smaller: bool = False,
        fits: Callable[[Job, int, bool], Configuration | None] = fitting,
        index: WaitingIndex | None = None,
    ) -> None:
        self.idle = state.idle
        self._state, self._now, self._fits = state, now, fits
        self._moldable, self._smaller, self._index = moldable, smaller, index
        self._started: list[tuple[float, int, int]] = []  # as State.ends, of who starts now
        self._held: Reservation | None = None

    def start(self, job: Job) -> Configuration | None:
        held = self._held
        moldable = self._moldable if held is None else self._smaller
        configuration = self._fits(job, self.idle, moldable)
        if configuration is None:
            return None
        size = configuration.size
        planned_s = job.spec.planned_on_s(size)
        end_s = INF if planned_s is None else self._now + planned_s
        if held is None:
            self._started.append((end_s, job.id, size))
        elif end_s > held.end_by(self._now):
            if size > held.extra_nodes:
                configuration = self._fits(job, held.extra_nodes, moldable)
                if configuration is None:
                    return None
                size = configuration.size
            held.extra_nodes -= size
        self.idle -= size
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
        return max(held.shadow_time_s, nextafter(now, INF))

    def passing(self, jobs: Iterator[Job]) -> Iterable[Job]:
        index, held = self._index, self._held
        behind = next(jobs, None) if held is not None and index is not None else None
        if held is None or index is None or behind is None:
            return jobs
        index.sync(self._state)
        found = index.candidates(self.idle, self._now, held.end_by(self._now), held.extra_nodes)
        return (job for job in found if job.id >= behind.id)


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
