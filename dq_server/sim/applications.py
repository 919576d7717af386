"""Simulated applications: what a job does between its start and its end.

An application is an object that reacts to the scheduler's actions on its job and sets events going
with `Simulation.at`. To simulate another kind of application, write a class with these methods.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from dq_server.core.model.actions import (
    AnswerRemap,
    AnswerRequest,
    CallRemap,
    KillJob,
    ResizeWorkers,
    StartJob,
)
from dq_server.core.model.events import JobEnded, RemapPoint, ResizeCommitted
from dq_server.core.model.sizes import Configuration

if TYPE_CHECKING:
    from dq_server.sim.engine import Simulation

ENDS, OTHERS = 0, 1  # of the events of one instant the ends come first
KILLED = -9
MOST_ITERATIONS = 1_000_000  # of a job: each remap point takes time to simulate


class Application(Protocol):
    """What the simulation tells an application. `now` in seconds."""

    def start(self, sim: Simulation, action: StartJob, now: float) -> None:
        """The job starts on `action.processors`."""

    def answer(self, sim: Simulation, action: AnswerRemap, now: float) -> None:
        """The answer to the remap point that it reported."""

    def call(self, sim: Simulation, action: CallRemap, now: float) -> None:
        """The scheduler wants the job at a remap point."""

    def kill(self, sim: Simulation, action: KillJob, now: float) -> None:
        """The job is killed."""


@runtime_checkable
class Asking(Protocol):
    """An application that asks for processors (sim/evolving.py)."""

    def request_answer(self, sim: Simulation, action: AnswerRequest, now: float) -> None:
        """The answer to its request or release; one that waited is answered twice."""


class Rigid:
    """Runs for `run_s` seconds, whatever it starts on, and never reports."""

    __slots__ = ("_end", "run_s")

    def __init__(self, run_s: float) -> None:
        self.run_s = run_s
        self._end = 0

    def start(self, sim: Simulation, action: StartJob, now: float) -> None:
        self._end = sim.at(now + self.run_s, JobEnded(action.job, action.instance, 0), ENDS)

    def answer(self, sim: Simulation, action: AnswerRemap, now: float) -> None:
        """Never asked for."""

    def call(self, sim: Simulation, action: CallRemap, now: float) -> None:
        """It has no remap points: nothing happens."""

    def kill(self, sim: Simulation, action: KillJob, now: float) -> None:
        sim.cancel(self._end)
        sim.at(now, JobEnded(action.job, action.instance, KILLED), ENDS)


class Iterating:
    """`iterations` turns with a remap point between each two; the time of one depends on the grid.

    iteration_s(configuration)       seconds of one iteration
    redistribution_s(before, after)  seconds that a resize takes

    If the scheduler waits for jobs to come by themselves (`Simulation.polls`), every remap point is
    reported. Else only the first one after a call: the others would be answered `continue`.
    """

    __slots__ = ("_at", "_commit", "_done", "_end", "_next", "_resize_id", "_seq", "_since_s",
                 "_step_s", "iteration_s", "iterations", "redistribution_s")  # fmt: skip

    def __init__(
        self,
        iterations: int,
        iteration_s: Callable[[Configuration], float],
        redistribution_s: Callable[[int, int], float],
    ) -> None:
        self.iterations = iterations
        self.iteration_s = iteration_s
        self.redistribution_s = redistribution_s
        self._at: Configuration
        self._done = self._seq = self._resize_id = 0
        self._since_s = self._step_s = 0.0  # `_done` iterations were over at `_since_s`
        self._end = self._next = self._commit = 0  # the events under way; 0: none

    def start(self, sim: Simulation, action: StartJob, now: float) -> None:
        self._at, self._done = action.configuration, 0
        self._go_on(sim, action.job, action.instance, now)

    def _go_on(self, sim: Simulation, job: int, instance: int, since_s: float) -> None:
        """Compute on the grid `_at` from `since_s` on."""
        self._since_s, self._step_s = since_s, self.iteration_s(self._at)
        end_s = self._end_s()
        rank = ENDS if end_s > since_s else OTHERS  # after the commit of the resize before it
        self._end = sim.at(end_s, JobEnded(job, instance, 0), rank)
        if sim.polls:
            self._report(sim, job, instance, since_s)

    def _end_s(self) -> float:
        """When the job ends if nothing happens."""
        return self._since_s + (self.iterations - self._done) * self._step_s

    def _report(self, sim: Simulation, job: int, instance: int, now: float) -> None:
        """Set the next remap point after `now` going, unless the end comes first."""
        done = self._done + 1
        if self._step_s > 0:
            done = max(done, self._done + math.ceil((now - self._since_s) / self._step_s))
        at_s = max(now, self._since_s + (done - self._done) * self._step_s)
        if done >= self.iterations or at_s >= self._end_s():
            return
        self._report_at(sim, job, instance, at_s)

    def answer(self, sim: Simulation, action: AnswerRemap, now: float) -> None:
        answer = action.answer
        self._arrive(now)
        if answer.what == "continue":
            resting = sim.resting
            if resting is not None and resting.rest(action.job, action.instance, self):
                return
            if sim.polls:
                self._report(sim, action.job, action.instance, now)
            return
        sim.cancel(self._end)
        before, size = self._at.size, answer.configuration.size
        self._at, self._resize_id = answer.configuration, answer.resize_id
        cost_s = self.redistribution_s(before, size)
        sim.resized(action.job, now if size > before else now + cost_s, size, before)
        commit = ResizeCommitted(action.job, action.instance, answer.resize_id, cost_s)
        self._commit = sim.at(now + cost_s, commit, OTHERS)
        self._go_on(sim, action.job, action.instance, now + cost_s)

    def _arrive(self, now: float) -> None:
        """It is at the remap point that it reported."""
        self._next = 0
        if self._step_s > 0:
            self._done += round((now - self._since_s) / self._step_s)
        else:
            self._done += 1
        self._since_s = now

    def _ahead(self) -> Iterator[tuple[float, float]]:
        """The remap points to come: when the one before is passed, and when this one is.

        As `_report` and `answer` count, sum by sum: times are to agree to the last digit.
        """
        since_s, step_s, left = self._since_s, self._step_s, self.iterations - self._done
        while left > 1:
            at_s = since_s + step_s
            if at_s >= since_s + left * step_s:
                return
            yield since_s, at_s
            since_s, left = at_s, left - 1

    def _report_at(
        self,
        sim: Simulation,
        job: int,
        instance: int,
        at_s: float,
        issued_s: float | None = None,
        iterations: int = 1,
    ) -> None:
        """Set the remap point of this time going; see Simulation.at and RemapPoint."""
        self._seq += 1
        size, made = self._at.size, self._resize_id
        point = RemapPoint(
            job, instance, self._seq, size, made, self._step_s, iterations=iterations
        )
        self._next = sim.at(at_s, point, OTHERS, issued_s=issued_s)

    def pass_by(self, sim: Simulation, job: int, instance: int, now: float, count: int) -> None:
        """Report the remap point after the next `count`, this one included.

        Those would be answered `continue`.
        """
        self._arrive(now)
        for since_s, at_s in islice(self._ahead(), count - 1, count):
            self._report_at(sim, job, instance, at_s, since_s)

    def come_back(
        self,
        sim: Simulation,
        job: int,
        instance: int,
        now: float,
        issued_s: float | None,
        *,
        measured: bool,
    ) -> int:
        """Report at the next remap point; those passed meanwhile were told to continue.

        One at `now` itself is over if what happens now (`issued_s`) was set going after it.
        Returns how many were passed; `measured`: they are told of by themselves (PointsPassed).
        """
        sim.cancel(self._next)
        self._next = 0
        for passed, (since_s, at_s) in enumerate(self._ahead()):
            over = issued_s is not None and since_s < issued_s
            if at_s > now or (at_s == now and not over):
                self._done += passed
                self._since_s = since_s
                self._report_at(sim, job, instance, at_s, since_s, 1 if measured else passed + 1)
                return passed
        return 0

    def call(self, sim: Simulation, action: CallRemap, now: float) -> None:
        if not self._next:
            self._report(sim, action.job, action.instance, max(now, self._since_s))

    def kill(self, sim: Simulation, action: KillJob, now: float) -> None:
        for under_way in (self._end, self._next, self._commit):
            sim.cancel(under_way)
        sim.at(now, JobEnded(action.job, action.instance, KILLED), ENDS)


class Crew:
    """Ends when its workers together have done `work_s` processor-seconds; they lose nothing when
    one leaves, and one leaves at once."""

    __slots__ = ("_end", "_left_s", "_since_s", "_size", "work_s")

    def __init__(self, work_s: float) -> None:
        self.work_s = self._left_s = work_s
        self._size = self._end = 0
        self._since_s = 0.0

    def start(self, sim: Simulation, action: StartJob, now: float) -> None:
        self._left_s, self._since_s, self._size = self.work_s, now, len(action.processors)
        self._expect(sim, action.job, action.instance)

    def resized(self, sim: Simulation, action: ResizeWorkers, now: float) -> None:
        """Workers have come or left."""
        self._left_s = max(0.0, self._left_s - self._size * (now - self._since_s))
        sim.resized(action.job, now, action.size, self._size)
        self._since_s, self._size = now, action.size
        sim.cancel(self._end)
        self._expect(sim, action.job, action.instance)

    def _expect(self, sim: Simulation, job: int, instance: int) -> None:
        """The end, if they go on as they are; with no worker it never comes."""
        self._end = 0
        if self._size:
            end_s = self._since_s + self._left_s / self._size
            self._end = sim.at(end_s, JobEnded(job, instance, 0), ENDS)

    def answer(self, sim: Simulation, action: AnswerRemap, now: float) -> None:
        """It has no remap points: never asked for."""

    def call(self, sim: Simulation, action: CallRemap, now: float) -> None:
        """See `answer`."""

    def kill(self, sim: Simulation, action: KillJob, now: float) -> None:
        sim.cancel(self._end)
        if self._size:  # else it is over at once
            sim.at(now, JobEnded(action.job, action.instance, KILLED), ENDS)
