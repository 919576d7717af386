"""What happened to each job in a simulation, and the metrics made of it.

Definitions. Wait: start - submission. Turnaround: end - submission. Bounded slowdown: turnaround
over the run time on the processors that the job asks for, where run times below `SLOWDOWN_BOUND_S`
count as that and the result is at least 1 (Feitelson & Rudolph 1998). So a policy that makes a job
run faster has a smaller slowdown, and one that makes it run slower a larger one. A job that did not
end by itself counts with the time that it ran. Makespan: last end - first submission. Utilization:
processor-seconds held by jobs over nodes x makespan. Processors reserved for an expansion are held
from the moment they are granted, those released by a shrink until it is committed. All times in
seconds. Jobs of a warm-up (`warm_up_until`) are simulated and not counted; `backfilled` alone
counts them, too.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dq_server.core.model.actions import StartJob
from dq_server.core.model.jobs import JobState
from dq_server.sim.errors import WorkloadError
from dq_server.sim.workload import Workload

if TYPE_CHECKING:
    from dq_server.sim.pool import NodeHistory

SLOWDOWN_BOUND_S = 10.0
NAN = float("nan")
STATES = (JobState.DONE, JobState.FAILED, JobState.KILLED)
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Resize:
    """From `time_s` on a job holds `size` processors instead of `before`."""

    time_s: float
    size: int
    before: int


def _percentiles(name: str, values: Floats) -> dict[str, float]:
    """Median and 95th percentile by name; 0 if there are no values."""
    median, p95 = np.percentile(values, (50, 95)).tolist() if len(values) else (0.0, 0.0)
    return {f"median_{name}": median, f"p95_{name}": p95}


class SimulatedJobs:
    """Filled by a Simulation, then read. Jobs are counted as in the workload, from 0."""

    def __init__(self, workload: Workload, nodes: int) -> None:
        n = len(workload)
        self.workload, self.nodes = workload, nodes
        self.start_s = array("d", [NAN]) * n
        self.end_s = array("d", [NAN]) * n
        self.processors = array("q", [0]) * n  # at the start
        self.state = bytearray(n)  # index into STATES
        self.resizes: dict[int, list[Resize]] = {}
        self.backfilled = 0
        self.pool: NodeHistory | None = None  # if the nodes came from one
        self._from_s = -math.inf
        self.notes = Counter(workload.notes)
        self._of_id = array("q", [-1])  # job id -> k
        self._submitted_s: dict[int, float] = {}  # where not at its time in the workload

    # -- filling ---------------------------------------------------------------------------------

    def submitted(self, k: int, now: float | None = None) -> int:
        """Job k is the next that the scheduler numbers (from 1 on); returns that number.

        `now`: when it is submitted, if it may be at another time than the workload says.
        """
        self._of_id.append(k)
        if now is not None and now != self.workload.submit_s[k]:
            self._submitted_s[k] = now
        return len(self._of_id) - 1

    def too_large(self) -> None:
        """A job asks for more than the machine has: it is not submitted."""
        self.notes[f"left out: larger than {self.nodes} nodes"] += 1

    def refused(self) -> None:
        """A job would exceed a quota for ever: it is not submitted."""
        self.notes["left out: refused by a quota"] += 1

    def started(self, job: int, now: float, action: StartJob) -> int:
        """Returns k of the job with this id."""
        k = self._of_id[job]
        self.start_s[k] = now
        self.processors[k] = action.configuration.size
        if action.reason.code == "backfilled":
            self.backfilled += 1
        return k

    def resized(self, job: int, time_s: float, size: int, before: int) -> None:
        self.resizes.setdefault(self._of_id[job], []).append(Resize(time_s, size, before))

    def restarted(self, job: int) -> None:
        """The job begins again from its start: what it has done is lost."""
        self.resizes.pop(self._of_id[job], None)
        self.notes["starts again, after its processors had failed"] += 1

    def finished(self, job: int, now: float, state: JobState, *, ran: bool) -> int:
        """The job reached an end state, after running or not; returns k of the job."""
        k = self._of_id[job]
        if not ran:
            self.notes["cancelled: a job that it comes after failed"] += 1
            return k
        self.end_s[k] = now
        self.state[k] = STATES.index(state)
        return k

    def close(self, waiting: int) -> None:
        """The simulation is over, and so many jobs still wait."""
        if waiting:
            self.notes["never started"] += waiting

    def warm_up_until(self, time_s: float) -> None:
        """Jobs submitted before are not counted; to be called before anything is read.

        Raises:
            WorkloadError: no job is left.
        """
        self._from_s = time_s
        left = len(self._ended) - len(self.ran)
        if not len(self.ran):
            raise WorkloadError("no job is left to count after the warm-up")
        self.notes["submitted in the warm-up: simulated, not counted"] += left

    # -- reading ---------------------------------------------------------------------------------

    @cached_property
    def _ended(self) -> NDArray[np.int64]:
        """The jobs that started and ended, ascending."""
        return np.flatnonzero(~np.isnan(np.frombuffer(self.end_s)))

    @cached_property
    def ran(self) -> NDArray[np.int64]:
        """Those of them that count, ascending."""
        return self._ended[self._submit_s()[self._ended] >= self._from_s]

    def _of_ran(self, column: array[float]) -> Floats:
        return np.frombuffer(column)[self.ran]

    def _submit_s(self) -> Floats:
        """Submission time of all jobs."""
        submit_s = np.array(self.workload.submit_s, dtype=np.float64)
        for k, at_s in self._submitted_s.items():
            submit_s[k] = at_s
        return submit_s

    @cached_property
    def submit(self) -> Floats:
        """Submission time of the jobs in `ran`."""
        return self._submit_s()[self.ran]

    @cached_property
    def wait(self) -> Floats:
        """Wait of the jobs in `ran`."""
        return self._of_ran(self.start_s) - self.submit

    @cached_property
    def turnaround(self) -> Floats:
        """Turnaround of the jobs in `ran`."""
        return self._of_ran(self.end_s) - self.submit

    @cached_property
    def bounded_slowdown(self) -> Floats:
        """Bounded slowdown of the jobs in `ran`."""
        static_s = np.array(self.workload.static_run_s, dtype=np.float64)[self.ran]
        done = np.frombuffer(self.state, np.uint8)[self.ran] == STATES.index(JobState.DONE)
        known = done & ~np.isnan(static_s)
        run_s = np.where(known, static_s, self.turnaround - self.wait)
        slowdown: Floats = self.turnaround / np.maximum(run_s, SLOWDOWN_BOUND_S)
        return np.maximum(slowdown, 1.0)

    @cached_property
    def processor_s(self) -> Floats:
        """Processor-seconds held by the jobs in `ran`."""
        held = (self.turnaround - self.wait) * np.frombuffer(self.processors, np.int64)[self.ran]
        for at, k in enumerate(self.ran.tolist()):
            for change in self.resizes.get(k, ()):
                held[at] += max(0.0, self.end_s[k] - change.time_s) * (change.size - change.before)
        return held

    @property
    def last_end_s(self) -> float:
        """When the last job ended; 0 if none ran."""
        return float(self._of_ran(self.end_s).max()) if len(self.ran) else 0.0

    @property
    def makespan_s(self) -> float:
        """See the module's docstring; 0 if no job ran."""
        if not len(self.ran):
            return 0.0
        return float(self.last_end_s - self.submit.min())

    def _held_s(self) -> float:
        """Processor-seconds held by jobs within the makespan, by those of a warm-up, too."""
        if self._from_s == -math.inf:
            return float(self.processor_s.sum())
        times, held = self.held_over_time()
        first_s, last_s = self.submit.min(), self.last_end_s
        edges = np.clip(np.append(times, last_s), first_s, last_s)
        return float((np.diff(edges) * held).sum())

    def metrics(self) -> dict[str, float | int]:
        """The figures of a run by name, as in `dq sim run --json`."""
        uncounted = set(self._ended.tolist()).difference(self.ran.tolist())
        changes = [c for k, made in self.resizes.items() if k not in uncounted for c in made]
        expands = sum(change.size > change.before for change in changes)
        capacity_s = self.nodes * self.makespan_s

        def mean(values: Floats) -> float:
            return float(values.mean()) if len(values) else 0.0

        return {
            "jobs": len(self.ran),
            "makespan_s": self.makespan_s,
            "mean_wait_s": mean(self.wait),
            "mean_turnaround_s": mean(self.turnaround),
            "mean_bounded_slowdown": mean(self.bounded_slowdown),
            **_percentiles("wait_s", self.wait),
            **_percentiles("turnaround_s", self.turnaround),
            **_percentiles("bounded_slowdown", self.bounded_slowdown),
            "utilization": self._held_s() / capacity_s if capacity_s else 0.0,
            "backfilled": self.backfilled,
            "expands": expands,
            "shrinks": sum(change.size < change.before for change in changes),
            "regrids": sum(change.size == change.before for change in changes),
            "failed": sum(self.state[k] != 0 for k in self.ran.tolist()),
        }

    def held_over_time(self) -> tuple[Floats, NDArray[np.int64]]:
        """Processors held by jobs as steps: (times, processors from each time on)."""
        times: list[float] = []
        deltas: list[int] = []
        for k in self._ended.tolist():
            size = self.processors[k]
            times.append(self.start_s[k])
            deltas.append(size)
            for change in self.resizes.get(k, ()):
                if change.time_s < self.end_s[k]:
                    times.append(change.time_s)
                    deltas.append(change.size - size)
                    size = change.size
            times.append(self.end_s[k])
            deltas.append(-size)
        order = np.argsort(times, kind="stable")
        at = np.asarray(times, dtype=np.float64)[order]
        held = np.asarray(deltas, dtype=np.int64)[order].cumsum()
        last = np.append(at[1:] != at[:-1], True) if len(at) else np.zeros(0, dtype=bool)
        return at[last], held[last]
