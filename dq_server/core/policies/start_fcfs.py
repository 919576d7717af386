"""FCFS start: jobs start in queue order; the first that does not fit stops the rest.

Source: ReSHAPE thesis, 3.4.1: a job waits until processors for its initial size are there. The
backfill loop with a depth of 0 (planning/backfill.py). Beside what features have promised to
somebody a job fits if it leaves them that. A profile known in advance that has its promise
(features/profiles.py) stops nobody; one without stops the rest like any job.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.jobs import Job
from dq_server.core.model.state import State
from dq_server.core.planning.backfill import Room, due, in_line, promises
from dq_server.core.planning.shadow import Shadow
from dq_server.core.planning.timeline import Timeline
from dq_server.core.policies.base import Start, StartPolicy


class FcfsStart(StartPolicy):
    """Start from the head of the queue, on the initial size (or moldable), while they fit."""

    def __init__(self, config: SchedulerConfig) -> None:
        self._moldable = config.moldable

    def choose(
        self, state: State, queue: Iterable[Job], config: SchedulerConfig, now: float
    ) -> list[Start]:
        room: Room = Shadow(state, now, moldable=self._moldable)
        if state.has_promises:
            room = Timeline(state, now, moldable=self._moldable)
            queue = takewhile(lambda job: not job.spec.profile or state.start_promised(job), queue)
            queue = in_line(queue, None)
        return due(promises(queue, room, now, depth=0), state.idle, now)
