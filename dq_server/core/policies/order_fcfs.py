"""First come, first served: the queue in submission order."""

from __future__ import annotations

from collections.abc import Iterable

from dq_server.core.model.jobs import Job
from dq_server.core.model.state import State
from dq_server.core.policies.base import QueueOrder


class FcfsOrder(QueueOrder):
    """Submission order; ids break ties because they are given in that order."""

    def ordered(self, state: State, now: float) -> Iterable[Job]:
        return state.queue.values()
