"""Jobs that come after others in a workload: what is submitted when, and after whom.

A job with a think time is submitted that long after the end of the job before it; any other is
submitted at its time in the workload and waits in the scheduler (features/dependencies.py). See
workload.Follows. A job before it that was left out, because the machine is too small, counts as
ended if its end is all that matters; if it had to be successful, the job after it is left out, too.
"""

from __future__ import annotations

from dataclasses import replace

from dq_server.core.model.jobs import JobSpec, JobState
from dq_server.core.model.state import State
from dq_server.sim.records import SimulatedJobs
from dq_server.sim.workload import Workload

NEVER = "left out: comes after a job that failed or was left out"


class Feedback:
    """Which jobs of the workload were submitted, and which await the end of another one."""

    def __init__(self, workload: Workload, records: SimulatedJobs) -> None:
        self._workload, self._records = workload, records
        self._ids: dict[int, int] = {}  # jobs that were submitted -> their ids
        self._then: dict[int, list[tuple[int, float]]] = {}  # job -> (job, think s) after its end
        self._due: dict[int, int] = {}  # number of a simulated event -> the job it submits
        self._left_out: set[int] = set()  # jobs that are never submitted, for whatever reason
        for k, follows in workload.follows.items():
            if follows.think_s is not None:
                self._await(k, follows.after_any[0], follows.think_s)

    def _await(self, k: int, before: int, think_s: float) -> None:
        self._then.setdefault(before, []).append((k, think_s))

    def awaits(self, k: int) -> bool:
        """Whether job k is submitted after the end of another one, whenever that is."""
        follows = self._workload.follows[k]
        return follows.think_s is not None and self._fits(follows.after_any[0])

    def spec(self, k: int, state: State) -> JobSpec | None:
        """Job k, about to be submitted; None if it is not, or not yet."""
        spec, follows = self._workload.spec(k), self._workload.follows[k]
        for n in (*follows.after, *follows.after_any):
            if n not in self._ids and self._fits(n):  # it awaits the end of another one itself
                self._await(k, n, 0.0)
                return None
        if any(n not in self._ids or _failed(state, self._ids[n]) for n in follows.after):
            self._records.notes[NEVER] += 1
            self._left_out.add(k)
            return None
        return replace(spec, after=self._of(follows.after), after_any=self._of(follows.after_any))

    def _fits(self, k: int) -> bool:
        return k not in self._left_out and self._workload.size(k) <= self._records.nodes

    def _of(self, jobs: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(self._ids[n] for n in jobs if n in self._ids)

    def submitted(self, k: int, job: int) -> None:
        """Job k was submitted and has the id `job`."""
        self._ids[k] = job

    def ended(self, k: int) -> list[tuple[int, float]]:
        """Job k has ended: the jobs that are submitted so long (s) after this."""
        return self._then.pop(k, [])

    def refused(self, k: int) -> None:
        """Job k is never submitted."""
        self._left_out.add(k)

    def gone(self, k: int) -> list[tuple[int, float]]:
        """As `ended`, if job k will never be submitted: none has to wait for it."""
        return self.ended(k) if k in self._left_out else []

    def close(self) -> None:
        """The simulation is over: who awaited what did not end is left out."""
        left = sum(map(len, self._then.values()))
        if left:
            self._records.notes[NEVER] += left

    def expect(self, number: int, k: int) -> None:
        """The simulated event `number` submits job k."""
        self._due[number] = k

    def due(self, number: int) -> int:
        """The job that this event submits."""
        return self._due.pop(number)


def _failed(state: State, job: int) -> bool:
    return state.jobs[job].state in (JobState.FAILED, JobState.KILLED)
