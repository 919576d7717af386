"""An index over a long queue: which waiting jobs could be backfilled at all?

A scan of the whole queue at each job end makes a simulation quadratic. This index keeps two numbers
per waiting job in arrays, the fewest processors it can start on and the shortest time it plans to
run, and finds in one sweep over them the jobs that pass both of EASY's conditions. They are lower
bounds: the policy looks closely at those that pass.

Jobs enter at the end and leave lazily: one that is no longer queued is dropped when it is met, and
when most are gone the arrays are packed.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from dq_server.core.model.jobs import Job, JobState, smallest_start
from dq_server.core.model.state import State

GONE = 2**62
INF = float("inf")


class WaitingIndex:
    """The queue in submission order, as arrays. `sync` first, then ask."""

    def __init__(self, moldable: bool) -> None:
        self._moldable = moldable
        self._jobs: list[Job] = []
        self._sizes: NDArray[np.int64] = np.empty(256, dtype=np.int64)
        self._planned: NDArray[np.float64] = np.empty(256)
        self._last = 0  # id of the newest job that was taken in
        self._reordered = 0

    def sync(self, state: State) -> None:
        """Take in what was appended to the queue; start afresh if jobs came in elsewhere."""
        if self._reordered != state.reordered or len(self._jobs) > 2 * len(state.queue) + 256:
            self._jobs.clear()
            self._last, self._reordered = 0, state.reordered
        fresh = takewhile(lambda job: job.id > self._last, reversed(state.queue.values()))
        for job in reversed(list(fresh)):
            self._append(job)

    def _append(self, job: Job) -> None:
        at = len(self._jobs)
        if at == len(self._sizes):
            self._sizes = np.resize(self._sizes, 2 * at)
            self._planned = np.resize(self._planned, 2 * at)
        planned = job.spec.planned_s
        self._sizes[at] = smallest_start(job, self._moldable)
        self._planned[at] = INF if planned is None else planned
        self._jobs.append(job)
        self._last = job.id

    def candidates(self, idle: int, now: float, end_by_s: float, extra: int) -> Iterator[Job]:
        """Queued jobs that need at most `idle`, and plan to end by `end_by_s` or need `extra` only.

        In order. The figures may only become tighter while the answer is used.
        """
        count = len(self._jobs)
        sizes = self._sizes[:count]
        passes = sizes <= idle
        passes &= (self._planned[:count] + now <= end_by_s) | (sizes <= extra)
        for at in passes.nonzero()[0].tolist():
            job = self._jobs[at]
            if job.state is JobState.QUEUED:
                yield job
            else:
                sizes[at] = GONE
