"""EASY backfilling: later jobs may start early if they do not delay the job at the head.

Source: Lifka 1995; Mu'alem & Feitelson 2001, 2.2; MEBF paper, sections 1 and 3. The backfill loop
with a depth of 1 (planning/backfill.py): jobs start from the head of the queue while they fit, the
first that does not is promised its shadow time (planning/shadow.py), and in queue order a later job
starts if it does not put that off. With moldable start it may be backfilled on fewer processors
than it prefers (`smaller`). Beside what features have promised to somebody, the head's promise is
that of a timeline, which sees theirs.

A long queue in submission order is searched through an index (planning/waiting_index.py): a look at
each job at each event makes a simulation under overload quadratic (benchmarks/simulator.py, MEBF).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.jobs import Job
from dq_server.core.model.options import Options
from dq_server.core.model.state import State
from dq_server.core.planning.backfill import due, in_line, promises
from dq_server.core.planning.shadow import Shadow
from dq_server.core.planning.timeline import Timeline
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


class EasyStart(StartPolicy):
    def __init__(self, config: SchedulerConfig) -> None:
        self._moldable = config.moldable
        self._smaller = config.moldable and config.of(EasyOptions).smaller
        self._in_order = config.order == "fcfs"
        self._index: WaitingIndex | None = None

    def choose(
        self, state: State, queue: Iterable[Job], config: SchedulerConfig, now: float
    ) -> list[Start]:
        if state.has_promises:
            beside = Timeline(state, now, moldable=self._moldable)
            made = promises(in_line(queue, None), beside, now, depth=1)
        else:
            how = {"moldable": self._moldable, "smaller": self._smaller}
            room = Shadow(state, now, **how, index=self._index_of(state))
            made = promises(queue, room, now, depth=1)
        return due(made, state.idle, now)

    def _index_of(self, state: State) -> WaitingIndex | None:
        """Of the queue, if that is long enough; see the module's docstring."""
        if not self._in_order or len(state.queue) < LONG_QUEUE:
            return None
        if self._index is None:
            # numpy: a server starts without it
            from dq_server.core.planning.waiting_index import WaitingIndex

            self._index = WaitingIndex(self._moldable)
        return self._index
