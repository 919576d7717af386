"""Shrink points and expand points: candidate configurations with their penalty or gain.

Source: ReSHAPE thesis, 3.4.4, "Shrink decisions" and "Expand decisions".

All points of all jobs are kept sorted as jobs change (state.py): a decision begins with the best
ones and stops where the rest cannot matter. Its cost follows the number of points that it takes,
not the number of jobs that run.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple

from dq_server.core.model.jobs import Job, JobKind, JobState
from dq_server.core.model.placing import growth, room
from dq_server.core.model.sizes import Configuration, smallest_at_least
from dq_server.core.model.state import Derived, State


class ShrinkPoint(NamedTuple):
    """If `job` shrinks to `target`, `freed` processors become idle for `penalty` (relative)."""

    job: Job
    target: Configuration
    freed: int
    penalty: float


class ExpandPoint(NamedTuple):
    """If `job` expands to `target` by `added` processors, it gains `gain` (relative)."""

    job: Job
    target: Configuration
    added: int
    gain: float


def may_resize(state: State, job: Job) -> bool:
    """Whether the active job can be resized now, as far as the scheduler decides that.

    One that first has to leave a node that drains is not there to be resized.
    """
    return (
        job.spec.kind is JobKind.MALLEABLE
        and job.resize is None
        and job.state is not JobState.KILLING
        and not job.fixed_size
        and not state.processors.drain(job.allocation)
    )


def is_resizable(state: State, job: Job) -> bool:
    """Whether it also runs, and reaches remap points."""
    return job.state is JobState.RUNNING and job.remap_points > 0 and may_resize(state, job)


def resizable(state: State) -> Iterable[Job]:
    """The active jobs that are."""
    return (job for job in state.active.values() if is_resizable(state, job))


# Sorted by what decides, then the job's id and which of its points it is: penalty, freed, job, k;
# and gain (negative, the best first), added, job, k. The point itself is never compared.
Shrink = tuple[float, int, int, int, ShrinkPoint]
Expand = tuple[float, int, int, int, ExpandPoint]


@dataclass(slots=True)
class _Own:
    """The points of one job that has some, or could."""

    shrinks: list[Shrink] = field(default_factory=list)
    expands: list[Expand] = field(default_factory=list)
    freed: int = 0  # processors that it can free at most
    probe: int = 0  # that it needs more to try its next larger size; 0: that is not to be tried
    basis: tuple[object, ...] = field(default=(), compare=False)  # what they were made of


_NONE = _Own()  # of a job that is not resizable; never changed


class Points(Derived):
    """All points, the best first; ties: fewer processors first, then the older job."""

    def __init__(self) -> None:
        super().__init__()
        self._own: dict[int, _Own] = {}  # by job, of those that are resizable
        self._shrinks: list[Shrink] = []
        self._expands: dict[int, list[Expand]] = {}  # by the number of processors added
        self._freeable = 0  # by all jobs together
        self._chosen: dict[int, dict[int, ShrinkPoint]] = {}  # by `to_free`, as long as it holds

    def update(self, state: State, job_id: int, job: Job | None) -> None:
        old = self._own.get(job_id, _NONE)
        basis: tuple[object, ...] = ()
        if job is not None and is_resizable(state, job):
            basis = _basis(job)
            if basis == old.basis:
                return  # most touches change nothing here
        new = _NONE
        if job is not None and basis:
            self._own[job_id] = new = _points(job, basis)
        else:
            self._own.pop(job_id, None)
        if new.shrinks != old.shrinks:
            self._chosen.clear()
            self._freeable += new.freed - old.freed
            for shrink in old.shrinks:
                del self._shrinks[bisect_left(self._shrinks, shrink)]
            for shrink in new.shrinks:
                insort(self._shrinks, shrink)
        if new.expands != old.expands:
            for expand in old.expands:
                there = self._expands[expand[1]]
                del there[bisect_left(there, expand)]
                if not there:
                    del self._expands[expand[1]]
            for expand in new.expands:
                insort(self._expands.setdefault(expand[1], []), expand)

    def said(self) -> object:
        own = {job_id: own for job_id, own in self._own.items() if own.shrinks or own.expands}
        return own, self._shrinks, self._expands, self._freeable

    def probing(self, job_id: int) -> int:
        """How many more processors the job needs to try its next larger size; 0: it will not."""
        own = self._own.get(job_id)
        return own.probe if own is not None else 0

    def to_free(self, needed: int) -> dict[int, ShrinkPoint] | None:
        """Take points in order until `needed` processors are freed; None if all together do not.

        Of one job only the largest shrink counts: a later point that frees more replaces the
        earlier.
        """
        if needed > self._freeable:
            return None
        found = self._chosen.get(needed)
        if found is not None:
            return found
        chosen = self._chosen[needed] = dict[int, ShrinkPoint]()
        freed = 0
        for *_, point in self._shrinks:
            if freed >= needed:
                break
            before = chosen.get(point.job.id)
            more = point.freed - (before.freed if before else 0)
            if more > 0:
                chosen[point.job.id] = point
                freed += more
        return chosen

    def funded(
        self, state: State, idle: int, threshold: float, without: Job | None = None
    ) -> Iterator[tuple[ExpandPoint, bool]]:
        """Expand points in order, and whether the idle processors go to each: one point per job.

        Only points that fit on what is left, and gain more than the threshold: what does not fit
        must not keep idle processors from others. `without`: not those of this job.
        """
        # The next point of each list; a list whose points do not fit any more is left out.
        heads = [(points[0], 0, points) for added, points in self._expands.items() if added <= idle]
        heapify(heads)
        left, given = idle, set[int]()
        while heads:
            (loss, added, job_id, _, point), at, points = heads[0]
            if -loss <= threshold:
                return  # and so do all others, which gain less
            if added > left or at + 1 == len(points):
                heappop(heads)
            else:
                heapreplace(heads, (points[at + 1], at + 1, points))
            job = point.job
            if job is without or (job.spec.needs is not None and added > room(state, job)):
                continue
            if growth(state, job, added) < added:  # what it cannot get is not kept from others
                continue
            gets = added <= left and job_id not in given
            if gets:
                given.add(job_id)
                left -= added
            yield point, gets

    def expansion(
        self, state: State, job: Job, idle: int, threshold: float
    ) -> tuple[ExpandPoint | None, ExpandPoint | None]:
        """The best point of all (None: there is none that fits), and the one that `job` gets."""
        own, first = self._own.get(job.id), None
        least = -own.expands[-1][0] if own is not None and own.expands else None
        for point, gets in self.funded(state, idle, threshold):
            first = first or point
            if gets and point.job is job:
                return first, point
            if least is None or point.gain < least:
                break  # none of what follows is the job's
        return first, None


def _basis(job: Job) -> tuple[object, ...]:
    """All that `_points` goes by, in copies."""
    data = job.performance
    known, kept = data.known.copy(), data.kept.copy()
    return job.spec, job.configuration, job.settle > 0, data.sweet_spot, known, kept


def _points(job: Job, basis: tuple[object, ...]) -> _Own:
    current = job.configuration
    assert current is not None, "it runs"
    data, size, own = job.performance, job.size, _Own(basis=basis)
    for k, (smaller, penalty) in enumerate(data.shrink_stack(current)):
        freed = size - smaller.size
        shrink = ShrinkPoint(job, smaller, freed, penalty)
        own.shrinks.append((penalty, freed, job.id, k, shrink))
        own.freed = max(own.freed, freed)
    if not job.settle:
        for k, (larger, gain) in enumerate(data.expand_candidates(current)):
            expand = ExpandPoint(job, larger, larger.size - size, gain)
            own.expands.append((-gain, expand.added, job.id, k, expand))
    own.expands.sort()
    larger_one = next_larger(job)
    if larger_one is not None and data.allows(larger_one) and larger_one not in data.known:
        own.probe = larger_one.size - size
    return own


def next_larger(job: Job) -> Configuration | None:
    """The next of the job's legal sizes; None: it has the largest."""
    return smallest_at_least(job.chain, job.size + 1)
