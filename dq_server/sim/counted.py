"""Logs whose rigid jobs use none of the scheduler's features: simulated by counting processors.

A start depends on three numbers a job then: its size, when it is planned to end and when it was
submitted. `Counted` decides what `FcfsStart` and `EasyStart` decide, whose files have the rules,
without jobs, events or reasons. A simulation takes this path by itself where it may;
tests/sim/test_counted.py compares the two, schedule by schedule.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from heapq import heappop, heappush
from math import nextafter
from typing import TYPE_CHECKING

import numpy as np

from dq_server.core.model.quotas import QuotaOptions
from dq_server.core.policies.base import NoResize, Policies
from dq_server.core.policies.orders import FcfsOrder
from dq_server.core.policies.start_backfill import EasyStart, FcfsStart
from dq_server.core.scheduler import Scheduler
from dq_server.sim.anonymous import AnonymousProcessors
from dq_server.sim.workload import RigidWorkload, Workload

if TYPE_CHECKING:
    from dq_server.sim.engine import Simulation

LONG_QUEUE = 64  # jobs; beyond, one sweep over arrays costs less than a look at each
GONE = 2**62
INF = float("inf")


def suffices(policies: Policies) -> bool:
    """Whether `Counted` decides as these policies do about rigid jobs that use no feature."""
    return (
        type(policies.order) is FcfsOrder
        and type(policies.resize) is NoResize
        and type(policies.start) in (EasyStart, FcfsStart)
    )


class Counted:
    """Jobs 0, 1, ... by submission, with size and planned run time (s). See the module's docstring.

    idle        processors that nobody holds
    backfilled  jobs that have started before one that was submitted earlier
    """

    def __init__(
        self, processors: int, sizes: Sequence[int], planned_s: Sequence[float], policies: Policies
    ) -> None:
        self.idle = processors
        self.backfilled = 0
        self._backfills = type(policies.start) is EasyStart
        self._sizes, self._planned_s = sizes, planned_s
        self._queue: list[int] = []  # ascending; those before `_first` have started
        self._first = 0
        self._ends: list[tuple[float, int, int]] = []  # planned end s, job, size: those that run
        self._planned_end_s: dict[int, float] = {}  # of those that run
        # Nothing was given back since the last full pass: only jobs that it has not seen may start.
        self._blocked = False
        # The head's reservation while `_blocked` (shadow.Reservation); `_until_s` -inf: not known.
        self._shadow_s, self._extra, self._until_s = INF, 0, -INF
        self._open = np.full(len(sizes), GONE, dtype=np.int64)  # sizes of those that wait
        self._planned = np.asarray(planned_s, dtype=np.float64)

    def turn(self, now: float, ended: Sequence[int], submitted: Sequence[int]) -> list[int]:
        """What happened at `now`, jobs ascending; returns who starts now, in order."""
        sizes, queue = self._sizes, self._queue
        for job in ended:
            size = sizes[job]
            self.idle += size
            entry = self._planned_end_s.pop(job), job, size
            del self._ends[bisect_left(self._ends, entry)]
            self._blocked = False
        for job in submitted:
            queue.append(job)
            self._open[job] = sizes[job]
        if not self.idle or self._first == len(queue):
            return []
        if self._blocked and (now <= self._until_s or self._until_s == -INF):
            return self._pass(now, submitted) if self._backfills else []
        return self._full_pass(now)

    def _full_pass(self, now: float) -> list[int]:
        sizes, queue, first = self._sizes, self._queue, self._first
        starts = []
        while first < len(queue) and sizes[queue[first]] <= self.idle:
            starts.append(queue[first])
            self._start(queue[first], now)
            first += 1
        self._first = first
        self._blocked, self._until_s = first < len(queue), -INF
        if first > LONG_QUEUE and 2 * first > len(queue):
            del queue[:first]
            self._first = 0
        if self._blocked and self._backfills and self.idle:
            starts += self._backfill(now)
        return starts

    def _backfill(self, now: float) -> list[int]:
        """Who may pass the head; of a long queue only those are looked at that could."""
        queue, first = self._queue, self._first
        if len(queue) - first < LONG_QUEUE:
            return self._pass(now, queue[first + 1 :])
        self._reserve(now)
        head, last = queue[first], queue[-1] + 1
        sizes = self._open[head + 1 : last]
        may = self._planned[head + 1 : last] + now <= self._end_by(now)
        may |= sizes <= self._extra
        may &= sizes <= self.idle
        return self._pass(now, (may.nonzero()[0] + (head + 1)).tolist())

    def _pass(self, now: float, jobs: Sequence[int]) -> list[int]:
        """Step 3 of EASY for these waiting jobs behind the head."""
        sizes, planned_s, starts = self._sizes, self._planned_s, []
        end_by_s = self._end_by(now)
        for job in jobs:
            size = sizes[job]
            if size > self.idle:
                continue
            if self._until_s == -INF:
                self._reserve(now)
                end_by_s = self._end_by(now)
            if now + planned_s[job] > end_by_s:
                if size > self._extra:
                    continue
                self._extra -= size
            starts.append(job)
            self._start(job, now)
            if self._shadow_s <= now:  # see _reserve
                planned_end_s = self._planned_end_s[job]
                self._until_s = min(self._until_s, nextafter(planned_end_s, -INF))
            del self._queue[bisect_left(self._queue, job, self._first)]
        self.backfilled += len(starts)
        return starts

    def _start(self, job: int, now: float) -> None:
        size = self._sizes[job]
        self.idle -= size
        self._open[job] = GONE
        end_s = self._planned_end_s[job] = now + self._planned_s[job]
        insort(self._ends, (end_s, job, size))

    def _end_by(self, now: float) -> float:
        return -INF if self._shadow_s == INF else max(self._shadow_s, now)

    def _reserve(self, now: float) -> None:
        """When the head will start at the latest, and what it leaves unused then."""
        ends, missing = self._ends, self._sizes[self._queue[self._first]] - self.idle
        k = 0
        while missing > 0:  # all of them together are the machine, and no job is larger
            missing -= ends[k][2]
            k += 1
        shadow_s = max(ends[k - 1][0], now)
        last = bisect_right(ends, (shadow_s, GONE, 0), lo=k)
        self._shadow_s = shadow_s
        self._extra = sum([size for _, _, size in ends[k:last]]) - missing
        if shadow_s > now:
            self._until_s = shadow_s
        else:  # it moves with `now` until the next planned end is passed, too
            self._until_s = nextafter(ends[last][0] if last < len(ends) else INF, -INF)


def may_count(workload: Workload, scheduler: Scheduler) -> bool:
    """Whether counts decide all: nothing but rigid jobs, and a machine that stays as it is."""
    if type(workload) is not RigidWorkload or workload.follows or workload.enforce_estimates:
        return False
    if type(scheduler.state.processors) is not AnonymousProcessors:
        return False
    sizes, planned_s = workload.processors, workload.estimate_s
    # What a JobSpec would refuse is left to it.
    sound = all(size > 0 for size in sizes) and all(0 <= time_s < INF for time_s in planned_s)
    limited = scheduler.config.of(QuotaOptions).limited
    return sound and not limited and suffices(scheduler.policies)


def run_counted(sim: Simulation, workload: RigidWorkload, nodes: int) -> None:
    """All of `sim`, from the first submission to the last end; fills its records."""
    counted = Counted(nodes, workload.processors, workload.estimate_s, sim.scheduler.policies)
    records, run_s = sim.records, workload.run_s
    start_s, end_s, processors = records.start_s, records.end_s, records.processors
    ends: list[tuple[float, int]] = []
    submissions = sim.submissions()
    submit_s, k = next(submissions)
    while True:
        now = ends[0][0] if ends and ends[0][0] < submit_s else submit_s
        if now == INF:
            break
        ended, submitted = [], []
        while ends and ends[0][0] == now:
            ended.append(heappop(ends)[1])
        while submit_s == now:
            submitted.append(k)
            submit_s, k = next(submissions)
        sim.submitted += len(submitted)
        for job in counted.turn(now, ended, submitted):
            start_s[job] = now
            end_s[job] = then_s = now + run_s[job]
            processors[job] = workload.processors[job]
            heappush(ends, (then_s, job))
    records.backfilled = counted.backfilled
