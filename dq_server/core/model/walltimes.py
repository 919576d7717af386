"""When the next walltime, or its warning, is due: known without a look at every job."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Self

from dq_server.core.model.jobs import Job, JobState
from dq_server.core.model.state import Derived, State


class Walltimes(Derived):
    """A heap of due times. One that has changed leaves its old entry, dropped when it is met."""

    def __init__(self, warning_s: float = 0.0) -> None:
        super().__init__()
        self._warning_s = warning_s
        self._due_s: dict[int, float] = {}  # active jobs that have a walltime
        self._heap: list[tuple[float, int]] = []  # has all of these, and some that are out of date

    @classmethod
    def warning(cls, state: State, warning_s: float) -> Walltimes:
        """The one of this state, if jobs are warned that long before the end."""
        found = cls.of(state)
        if found._warning_s != warning_s:  # another configuration
            state.derived[cls.__name__] = found = cls(warning_s)
            found.touched.update(state.active)
            found = cls.of(state)
        return found

    def anew(self) -> Self:
        return type(self)(self._warning_s)

    def update(self, state: State, job_id: int, job: Job | None) -> None:  # noqa: ARG002
        end_s = None if job is None else walltime_end(job)
        if job is None or end_s is None or job.start_s is None:
            self._due_s.pop(job_id, None)
        else:
            due_s = end_s if job.warned else max(end_s - self._warning_s, job.start_s)
            if self._due_s.get(job_id) != due_s:
                self._due_s[job_id] = due_s
                heappush(self._heap, (due_s, job_id))
        if len(self._heap) > 2 * len(self._due_s) + 64:
            self._heap = [(due_s, job_id) for job_id, due_s in self._due_s.items()]
            heapify(self._heap)

    def said(self) -> object:
        return self._due_s, {entry for entry in self._heap if self._stands(entry)}

    def _stands(self, entry: tuple[float, int]) -> bool:
        return self._due_s.get(entry[1]) == entry[0]

    def due(self, by_s: float) -> set[int]:
        """Jobs of which something is due by then."""
        heap, met = self._heap, set[tuple[float, int]]()
        while heap and heap[0][0] <= by_s:
            entry = heappop(heap)
            if self._stands(entry):
                met.add(entry)
        for entry in met:
            heappush(heap, entry)
        return {job_id for _, job_id in met}

    def next_s(self) -> float | None:
        """When something is due next; None: no job has a walltime."""
        heap = self._heap
        while heap and not self._stands(heap[0]):
            heappop(heap)
        return heap[0][0] if heap else None


def walltime_end(job: Job) -> float | None:
    """When an active job's walltime ends (s); None: it has none, or is being killed already."""
    walltime_s = job.spec.walltime_s
    if walltime_s is None or job.start_s is None or job.state is JobState.KILLING:
        return None
    return job.start_s + walltime_s
