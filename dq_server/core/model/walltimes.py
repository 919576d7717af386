"""When the next walltime, or its warning, is due: known without a look at every job."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from math import inf
from typing import Self

from dq_server.core.model.jobs import Job, JobState
from dq_server.core.model.state import Derived, State


class Walltimes(Derived):
    """Due times of active jobs, ascending."""

    def __init__(self, warning_s: float = 0.0) -> None:
        super().__init__()
        self._warning_s = warning_s
        self._line: list[tuple[float, int]] = []
        self._due_s: dict[int, float] = {}  # the same, by job

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
        before_s = self._due_s.pop(job_id, None)
        if before_s is not None:
            del self._line[bisect_left(self._line, (before_s, job_id))]
        end_s = None if job is None else walltime_end(job)
        if job is not None and end_s is not None and job.start_s is not None:
            due_s = end_s if job.warned else max(end_s - self._warning_s, job.start_s)
            self._due_s[job_id] = due_s
            insort(self._line, (due_s, job_id))

    def said(self) -> object:
        return self._due_s, self._line

    def due(self, by_s: float) -> set[int]:
        """Jobs of which something is due by then."""
        return {job_id for _, job_id in self._line[: bisect_right(self._line, (by_s, inf))]}

    def next_s(self) -> float | None:
        """When something is due next; None: no job has a walltime."""
        return self._line[0][0] if self._line else None


def walltime_end(job: Job) -> float | None:
    """When an active job's walltime ends (s); None: it has none, or is being killed already."""
    walltime_s = job.spec.walltime_s
    if walltime_s is None or job.start_s is None or job.state is JobState.KILLING:
        return None
    return job.start_s + walltime_s
