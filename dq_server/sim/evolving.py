"""Simulated applications whose needs change while they run: they ask for more, or have a profile.

`Evolving`: Prabhakaran et al. 2014, IV-B. It asks at given times after its start until it is
granted, once; granted processors join it at once. Refused, it goes on as it is.

`Profiled`: Klein & Pérez 2011, 3.1; core/features/profiles.py carries its profile out. Each step
computes for its duration on its processors. A step that needs more than there are waits for them,
holding what it has; one that has begun runs on, whatever is taken away from it.
"""

from __future__ import annotations

from math import ceil
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


class ProfiledApplication:
    """Comes to a remap point when it is called: at once, or every `remap_s` seconds of its life.

    redistribution_s  what a resize costs; it computes nothing meanwhile
    """

    __slots__ = ("_begun", "_commit", "_end", "_left_s", "_next", "_resize_id", "_seq",
                 "_since_s", "_size", "_start_s", "_step", "profile", "redistribution_s",
                 "remap_s")  # fmt: skip

    def __init__(
        self,
        profile: tuple[tuple[int, int], ...],
        remap_s: float = 0.0,
        redistribution_s: float = 0.0,
    ) -> None:
        self.profile, self.remap_s, self.redistribution_s = profile, remap_s, redistribution_s
        self._size = self._step = self._seq = self._resize_id = 0
        self._left_s = float(profile[0][0])  # of the step, at `_since_s`
        self._begun = True  # the step
        self._start_s = self._since_s = 0.0
        self._end = self._next = self._commit = 0  # the events under way; 0: none

    def start(self, sim: Simulation, action: StartJob, now: float) -> None:
        self._start_s = self._since_s = now
        self._size = len(action.processors)
        self._expect_end(sim, action.job, action.instance)

    def _compute(self, now: float) -> None:
        """Bring the steps up to `now`."""
        while self._begun or self._size >= self.profile[self._step][1]:
            self._begun = True
            used_s = min(self._left_s, max(0.0, now - self._since_s))
            self._left_s -= used_s
            self._since_s += used_s
            if self._left_s > 0 or self._step + 1 == len(self.profile):
                return
            self._step += 1
            self._begun, self._left_s = False, float(self.profile[self._step][0])
        self._since_s = max(self._since_s, now)  # it waits

    def _expect_end(self, sim: Simulation, job: int, instance: int) -> None:
        """Set its end going if no step to come needs more than there is."""
        sim.cancel(self._end)
        self._end = 0
        rest = self.profile[self._step + self._begun :]
        if all(processors <= self._size for _, processors in rest):
            left_s = self._begun * self._left_s + sum(duration_s for duration_s, _ in rest)
            self._end = sim.at(self._since_s + left_s, JobEnded(job, instance, 0), ENDS)

    def call(self, sim: Simulation, action: CallRemap, now: float) -> None:
        if self._next:
            return
        at_s = now
        if self.remap_s:
            turns = ceil((now - self._start_s) / self.remap_s)
            at_s = max(now, self._start_s + turns * self.remap_s)
        self._seq += 1
        point = RemapPoint(action.job, action.instance, self._seq, self._size, self._resize_id, 0.0)
        self._next = sim.at(at_s, point, OTHERS)

    def answer(self, sim: Simulation, action: AnswerRemap, now: float) -> None:
        answer, self._next = action.answer, 0
        if answer.what == "continue":
            return
        self._compute(now)
        before, self._size = self._size, answer.configuration.size
        self._resize_id, cost_s = answer.resize_id, self.redistribution_s
        sim.resized(action.job, now if self._size > before else now + cost_s, self._size, before)
        commit = ResizeCommitted(action.job, action.instance, answer.resize_id, cost_s)
        self._commit = sim.at(now + cost_s, commit, OTHERS)
        self._since_s = max(self._since_s, now + cost_s)
        self._expect_end(sim, action.job, action.instance)

    def kill(self, sim: Simulation, action: KillJob, now: float) -> None:
        for under_way in (self._end, self._next, self._commit):
            sim.cancel(under_way)
        sim.at(now, JobEnded(action.job, action.instance, KILLED), ENDS)
