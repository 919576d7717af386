"""Processors taken over time, from now on: held until a planned end, or promised to somebody.

Choices where the papers are silent. A running job whose planned end has passed is expected to end
at any moment: just after now, so that nothing is started on what it still holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import nextafter

from dq_server.core.model.jobs import Job, adapts, smallest_start
from dq_server.core.model.placing import room
from dq_server.core.model.pool import arrivals, prospect
from dq_server.core.model.sizes import Configuration, largest_at_most
from dq_server.core.model.state import State
from dq_server.core.model.stepfunction import StepFunction

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
