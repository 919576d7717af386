"""Jobs that rest (core/resting.py), and which of them the server rings after a change.

Not journaled: a job whose connection is made anew, because this server is another one or the line
was cut, reports by itself. A ring that is lost otherwise costs the rest of a rest, REST_S at most.
"""

from __future__ import annotations

from typing import Literal

from dq_client.base import codec
from dq_client.base import messages as m
from dq_server.core import resting
from dq_server.core.model import events as ev
from dq_server.core.model.actions import Action, CallRemap
from dq_server.core.scheduler import Scheduler

OTHER: Literal["other"] = "other"  # it follows from events that are safe (standby/leader.py)
RING = codec.encode(m.Order(0, m.Ring()))


class SilentJobs:
    """The connections of the jobs that rest, by job."""

    def __init__(self) -> None:
        self._of: dict[int, bytes] = {}
        self._stirred: set[int] = set()

    def note(
        self, scheduler: Scheduler, event: ev.Event, actions: list[Action], now: float
    ) -> None:
        """Something has happened that may change the answers to some of them."""
        if self._of:
            self._stirred.update(resting.stirred(scheduler, self._of.keys(), event, now))
            self._stirred.update(one.job for one in actions if isinstance(one, CallRemap))

    def begin(self, job: int, identity: bytes) -> None:
        """The job rests from now on, whatever has happened before it was told so."""
        self._of[job] = identity
        self._stirred.discard(job)

    def end(self, job: int) -> None:
        """The job has reported, or has ended."""
        self._of.pop(job, None)

    def rings(self) -> list[tuple[bytes, bytes, Literal["other"]]]:
        """The rings to be sent, one for each job, in the form of the server's outbox."""
        called = self._stirred & self._of.keys()
        found = [(self._of.pop(job), RING, OTHER) for job in sorted(called)]
        self._stirred.clear()
        return found
