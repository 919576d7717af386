"""Starts by the backfill loop with a depth (planning/backfill.py): FCFS, EASY, reservations.

FCFS, depth 0. Source: ReSHAPE thesis, 3.4.1: a job waits until processors for its initial size are
there; the first that does not fit stops the rest. Beside what features have promised to somebody a
job fits if it leaves them that. A profile known in advance that has its promise
(features/profiles.py) stops nobody; one without stops the rest like any job.

EASY, depth 1. Source: Lifka 1995; Mu'alem & Feitelson 2001, 2.2; MEBF paper, sections 1 and 3. Jobs
start from the head of the queue while they fit, the first that does not is promised its shadow time
(`Shadow`), and in queue order a later job starts if it does not put that off. With
moldable start it may be backfilled on fewer processors than it prefers (`smaller`). Beside what
features have promised to somebody, the head's promise is that of a timeline, which sees theirs.

A long queue in submission order is searched through an index (planning/waiting_index.py): a look at
each job at each event makes a simulation under overload quadratic (benchmarks/simulator.py, MEBF).

Reservations: the first `reservation_depth` jobs that must wait are promised a start. Source:
Prabhakaran et al. 2014, III-A (Maui's ReservationDepth) and Algorithm 2. A depth of 1 resembles
EASY, a depth beyond the queue's length is conservative backfilling that promises anew in each pass.
While a job drains the cluster (it has at least `drain_priority`) nothing else starts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.jobs import Job
from dq_server.core.model.options import Options
from dq_server.core.model.state import State
from dq_server.core.planning.backfill import due, planned, promises
from dq_server.core.planning.timeline import Shadow
from dq_server.core.policies.base import Start, StartPolicy

if TYPE_CHECKING:
    from dq_server.core.planning.waiting_index import WaitingIndex

LONG_QUEUE = 64  # jobs; beyond, one sweep over arrays costs less than a look at each


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


class NoStart(StartPolicy):
    """Nobody starts: the cluster is going down, or an administrator has closed it."""

    def choose(self, *_: Any) -> list[Start]:
        return []


class FcfsStart(StartPolicy):
    """Start from the head of the queue, on the initial size (or moldable), while they fit."""

    def __init__(self, config: SchedulerConfig) -> None:
        self._moldable = config.moldable

    def choose(
        self, state: State, queue: Iterable[Job], config: SchedulerConfig, now: float
    ) -> list[Start]:
        if state.has_promises:
            queue = takewhile(lambda job: not job.spec.profile or state.start_promised(job), queue)
            return planned(state, queue, now, moldable=self._moldable, depth=0)
        room = Shadow(state, now, moldable=self._moldable)
        return due(promises(queue, room, now, depth=0), state.idle, now)


class EasyStart(StartPolicy):
    """Later jobs may start early if they do not delay the job at the head."""

    def __init__(self, config: SchedulerConfig) -> None:
        self._moldable = config.moldable
        self._smaller = config.moldable and config.of(EasyOptions).smaller
        self._in_order = config.order == "fcfs"
        self._index: WaitingIndex | None = None

    def choose(
        self, state: State, queue: Iterable[Job], config: SchedulerConfig, now: float
    ) -> list[Start]:
        if state.has_promises:
            return planned(state, queue, now, moldable=self._moldable, depth=1)
        index = self._index_of(state)
        room = Shadow(state, now, moldable=self._moldable, smaller=self._smaller, index=index)
        return due(promises(queue, room, now, depth=1), state.idle, now)

    def _index_of(self, state: State) -> WaitingIndex | None:
        """Of the queue, if that is long enough; see the module's docstring."""
        if not self._in_order or len(state.queue) < LONG_QUEUE:
            return None
        if self._index is None:
            # numpy: a server starts without it
            from dq_server.core.planning.waiting_index import WaitingIndex

            self._index = WaitingIndex(self._moldable)
        return self._index


class ReservationsStart(StartPolicy):
    """The first `reservation_depth` jobs that must wait are promised a start."""

    def choose(
        self, state: State, queue: Iterable[Job], config: SchedulerConfig, now: float
    ) -> list[Start]:
        return planned(
            state,
            queue,
            now,
            moldable=config.moldable,
            depth=config.reservation_depth,
            drain_priority=config.drain_priority,
        )
