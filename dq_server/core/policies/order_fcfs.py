"""First come, first served: the queue in submission order."""

from __future__ import annotations

from collections.abc import Iterable

from dq_server.core.jobs import Job
from dq_server.core.state import State


class FcfsOrder:
    """Submission order; ids break ties because they are given in that order."""

    charges = False

    def ordered(self, state: State, now: float) -> Iterable[Job]:  # noqa: ARG002
        """See QueueOrder."""
        return state.queue.values()
