"""EASY backfilling: later jobs may start early if they do not delay the job at the head.

Source: Lifka 1995; Mu'alem & Feitelson 2001, 2.2; MEBF paper, sections 1 and 3.

1. Jobs start from the head of the queue while they fit.
2. The first that does not fit gets a reservation (shadow.py).
3. In queue order, a later job that fits on the idle processors starts if it plans to end by the
   shadow time, or if it needs no more than the extra processors, which it then uses up. With
   moldable start it may be backfilled on fewer processors than it prefers (`smaller`).

Speed. Between two releases of processors things only become tighter, so that only jobs that joined
the queue since the last pass can start: `_Memo` keeps the reservation for them. A long queue is
searched through an index (waiting_index.py). Both are shortcuts to the same schedule, and only
taken if the queue is in submission order.

Beside profiles known in advance (features/profiles.py) the head's reservation is that of a plan of
depth 1 (start_reservations.py), which sees what was scheduled for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.fitting import adapts, fitting, smallest_start
from dq_server.core.model.jobs import Job
from dq_server.core.model.options import Options
from dq_server.core.model.reasons import because
from dq_server.core.model.sizes import Configuration, largest_at_most
from dq_server.core.model.state import State
from dq_server.core.policies.base import Start, StartPolicy
from dq_server.core.policies.shadow import Reservation, reserve
from dq_server.core.policies.start_reservations import start_by_plan

if TYPE_CHECKING:
    from dq_server.core.policies.waiting_index import WaitingIndex

LONG_QUEUE = 64
INF = float("inf")


@dataclass(frozen=True, slots=True)
class EasyOptions(Options):
    """How EASY backfills.

    smaller  with moldable start: also on fewer processors than a job prefers. The MEBF paper lets
             the first job in line adapt (Algorithm 1, lines 6 to 9) and leaves open whether one
             that is backfilled does. A job that is restarted always may.
    """

    table = "easy"
    short = {"backfill_smaller": "smaller"}  # noqa: RUF012 - a ClassVar of the base

    smaller: bool = True


@dataclass(slots=True)
class _Memo:
    """What the last full pass found; it holds while State.changes stays the same."""

    changes: int
    head: Job
    needed: int
    newest: int  # id of the last job that it looked at
    reservation: Reservation | None


class EasyStart(StartPolicy):
    """See the module's docstring."""

    def __init__(self, config: SchedulerConfig) -> None:
        self._moldable = config.moldable
        self._smaller = config.moldable and config.of(EasyOptions).smaller
        self._in_order = config.order == "fcfs"
        self._index: WaitingIndex | None = None
        self._memo: _Memo | None = None

    def choose(
        self,
        state: State,
        queue: Iterable[Job],
        config: SchedulerConfig,
        now: float,
    ) -> list[Start]:
        """See StartPolicy."""
        if state.has_promises:
            self._memo = None
            return start_by_plan(state, queue, now, depth=1, moldable=self._moldable)
        memo = self._memo
        if memo is not None and memo.changes == state.changes:
            held = memo.reservation
            if held is None or now <= held.until_s:
                return self._newcomers(state, memo, now)
        self._memo = None
        return self._full_pass(state, queue, now)

    def _full_pass(self, state: State, queue: Iterable[Job], now: float) -> list[Start]:
        idle, moldable = state.idle, self._moldable
        starts: list[Start] = []
        jobs = iter(queue)
        for job in jobs:
            configuration = fitting(job, idle, moldable)
            if configuration is None:
                memo = _Memo(state.changes, job, smallest_start(job, moldable), job.id, None)
                later = self._later(state, memo, idle, now, starts, jobs)
                self._backfill(state, memo, later, idle, now, starts)
                if self._in_order:
                    memo.newest = next(reversed(state.queue))
                    self._memo = memo
                return starts
            size = configuration.size
            starts.append(Start(job, configuration, because("started", size=size, idle=idle)))
            idle -= size
        return starts

    def _later(
        self,
        state: State,
        memo: _Memo,
        idle: int,
        now: float,
        starts: list[Start],
        jobs: Iterator[Job],
    ) -> Iterable[Job]:
        """The jobs behind the head; of a long queue only those that may pass."""
        if not self._in_order or len(state.queue) < LONG_QUEUE:
            return jobs
        if not idle:
            return ()
        index = self._index
        if index is None:
            from dq_server.core.policies.waiting_index import (
                WaitingIndex,  # numpy: a server starts without it
            )

            index = self._index = WaitingIndex(self._moldable)
        index.sync(state)
        memo.reservation = held = reserve(state, starts, idle, memo.needed, now)
        passing = index.candidates(idle, now, held.end_by(now), held.extra_nodes)
        return (job for job in passing if job.id > memo.head.id)

    def _newcomers(self, state: State, memo: _Memo, now: float) -> list[Start]:
        fresh = list(takewhile(lambda j: j.id > memo.newest, reversed(state.queue.values())))
        fresh.reverse()
        starts: list[Start] = []
        if fresh:
            memo.newest = fresh[-1].id
            self._backfill(state, memo, fresh, state.idle, now, starts)
        return starts

    def _backfill(
        self,
        state: State,
        memo: _Memo,
        jobs: Iterable[Job],
        idle: int,
        now: float,
        starts: list[Start],
    ) -> None:
        """Step 3. Appends to `starts`, which holds what step 1 decided."""
        held = memo.reservation
        ahead = len(starts)
        for job in jobs:
            if not idle:
                return
            if smallest_start(job, self._moldable) > idle:
                continue
            if held is None:
                held = reserve(state, starts[:ahead], idle, memo.needed, now)
                memo.reservation = held
            found = self._fits(job, idle, held, now)
            if found is None:
                continue
            configuration, in_time = found
            size = configuration.size
            if in_time:
                why = "it plans to end before the head job can start"
            else:
                why = "the head job leaves them unused"
                held.extra_nodes -= size
            figures = {"head": memo.head.id, "shadow_time_s": held.shadow_time_s}
            reason = because("backfilled", size=size, idle=idle, why=why, **figures)
            starts.append(Start(job, configuration, reason))
            idle -= size

    def _fits(
        self, job: Job, idle: int, held: Reservation, now: float
    ) -> tuple[Configuration, bool] | None:
        """The configuration to backfill on, and whether it ends by the shadow time."""
        spec, preferred = job.spec, job.preferred
        size = preferred.size
        may_adapt = bool(self._smaller or job.restarts) and adapts(job, self._moldable)
        configuration = preferred
        if size > idle:
            smaller = largest_at_most(spec.configurations, idle) if may_adapt else None
            if smaller is None:
                return None
            configuration, size = smaller, smaller.size
        if self._in_time(job, size, held.end_by(now), now):
            return configuration, True
        extra = held.extra_nodes
        if size <= extra:
            return configuration, False
        if may_adapt and extra:
            on_extra = largest_at_most(spec.configurations, extra)
            return None if on_extra is None else (on_extra, False)
        return None

    def _in_time(self, job: Job, size: int, end_by_s: float, now: float) -> bool:
        spec = job.spec
        planned_s, known = spec.planned_s, spec.scalability
        if end_by_s < now or planned_s is None:
            return False
        if known is None or size == spec.initial.size:
            return now + planned_s <= end_by_s
        # Most jobs need no closer look: on fewer processors they run no shorter.
        if size < spec.initial.size and known.rho <= 1 and now + planned_s > end_by_s:
            return False
        planned_on_s = spec.planned_on_s(size)
        return planned_on_s is not None and now + planned_on_s <= end_by_s
