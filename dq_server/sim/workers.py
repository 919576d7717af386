"""Simulated jobs of workers: work that is shared by as many workers as there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dq_server.core.model.actions import (
    AnswerRemap,
    CallRemap,
    KillJob,
    ResizeWorkers,
    StartJob,
)
from dq_server.core.model.events import JobEnded
from dq_server.sim.applications import ENDS, KILLED

if TYPE_CHECKING:
    from dq_server.sim.engine import Simulation


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
