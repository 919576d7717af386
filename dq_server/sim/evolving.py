"""A simulated application that asks for more processors while it runs.

Model: Prabhakaran et al. 2014, IV-B. It asks at given times after its start until it is granted,
once; granted processors join it at once. Refused, it goes on as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dq_server.core.model.actions import AnswerRemap, AnswerRequest, CallRemap, KillJob, StartJob
from dq_server.core.model.events import (
    DynamicRequested,
    JobEnded,
    RemapPoint,
    ResizeCommitted,
)
from dq_server.sim.applications import ENDS, KILLED, OTHERS

if TYPE_CHECKING:
    from dq_server.sim.engine import Simulation


class Evolving:
    """Runs `static_s` on its first processors; granted `more`, it is sooner done.

    asks_s       when it asks, seconds after its start, ascending
    dynamic_s    its whole run time if it is granted
    rest_only    a grant speeds up only what is left then, by dynamic_s / static_s; otherwise the
                 whole run takes `dynamic_s` whenever it was granted
    timeout_s    how long each request may wait
    """

    __slots__ = ("_asked", "_end", "_next", "_size", "_start_s", "asks_s", "dynamic_s", "more",
                 "rest_only", "static_s", "timeout_s")  # fmt: skip

    def __init__(
        self,
        static_s: float,
        dynamic_s: float,
        asks_s: tuple[float, ...],
        more: int,
        *,
        rest_only: bool = False,
        timeout_s: float = 0.0,
    ) -> None:
        self.static_s, self.dynamic_s = static_s, dynamic_s
        self.asks_s, self.more = asks_s, more
        self.rest_only, self.timeout_s = rest_only, timeout_s
        self._asked = self._size = self._end = self._next = 0
        self._start_s = 0.0

    def start(self, sim: Simulation, action: StartJob, now: float) -> None:
        self._start_s, self._size = now, len(action.processors)
        self._end = sim.at(now + self.static_s, JobEnded(action.job, action.instance, 0), ENDS)
        self._ask(sim, action.job, action.instance, now)

    def _ask(self, sim: Simulation, job: int, instance: int, now: float) -> None:
        """Set the next request going; one whose time has come while another waited is skipped.

        So are those at or after the end of the job.
        """
        self._next = 0
        end_s = self._start_s + self.static_s
        while self._asked < len(self.asks_s):
            at_s = self._start_s + self.asks_s[self._asked]
            self._asked += 1
            if now <= at_s < end_s:
                event = DynamicRequested(job, instance, self._asked, self.more, self.timeout_s)
                self._next = sim.at(at_s, event, OTHERS)
                return

    def request_answer(self, sim: Simulation, action: AnswerRequest, now: float) -> None:
        """See Asking: a granted request is carried out at a remap point at once."""
        job, instance, what = action.job, action.instance, action.answer.what
        if what == "granted":
            sim.at(now, RemapPoint(job, instance, 1, self._size, 0, 0.0), OTHERS)
        elif what != "waiting":
            self._ask(sim, job, instance, now)

    def answer(self, sim: Simulation, action: AnswerRemap, now: float) -> None:
        answer = action.answer
        before, self._size = self._size, answer.configuration.size
        sim.resized(action.job, now, self._size, before)
        sim.at(now, ResizeCommitted(action.job, action.instance, answer.resize_id), OTHERS)
        sim.cancel(self._end)
        end_s = self._start_s + self.dynamic_s
        if self.rest_only:
            left_s = self._start_s + self.static_s - now
            end_s = now + left_s * self.dynamic_s / self.static_s
        rank = ENDS if end_s > now else OTHERS  # at once, but after the commit
        self._end = sim.at(max(end_s, now), JobEnded(action.job, action.instance, 0), rank)

    def call(self, sim: Simulation, action: CallRemap, now: float) -> None:
        """It is resized when it asks for it: nothing happens."""

    def kill(self, sim: Simulation, action: KillJob, now: float) -> None:
        sim.cancel(self._end)
        sim.cancel(self._next)
        sim.at(now, JobEnded(action.job, action.instance, KILLED), ENDS)
