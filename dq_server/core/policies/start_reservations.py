"""Start by plan: the first `reservation_depth` jobs that must wait are promised a start.

Source: Prabhakaran et al. 2014, III-A (Maui's ReservationDepth) and Algorithm 2. The backfill loop
with that depth (planning/backfill.py): 1 resembles EASY, a depth beyond the queue's length is
conservative backfilling that promises anew in each pass. While a job drains the cluster (it has at
least `drain_priority`) nothing else starts.
"""

from __future__ import annotations

from collections.abc import Iterable

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.jobs import Job
from dq_server.core.model.state import State
from dq_server.core.planning.backfill import due, in_line, promises
from dq_server.core.planning.timeline import Timeline
from dq_server.core.policies.base import Start, StartPolicy


class ReservationsStart(StartPolicy):
    def choose(
        self, state: State, queue: Iterable[Job], config: SchedulerConfig, now: float
    ) -> list[Start]:
        drain_priority, depth = config.drain_priority, config.reservation_depth
        line = in_line(queue, drain_priority)
        room = Timeline(state, now, moldable=config.moldable)
        made = promises(line, room, now, depth=depth, drain_priority=drain_priority)
        return due(made, state.idle, now)
