"""FCFS start: jobs start in queue order; the first that does not fit stops the rest.

Beside profiles known in advance (features/profiles.py) a job fits if it leaves them what they were
promised. A profile that has its promise stops nobody; one without stops the rest like any job.

Source: ReSHAPE thesis, 3.4.1: a job waits until processors for its initial size are there.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.fitting import fitting
from dq_server.core.model.jobs import Job
from dq_server.core.model.reasons import because
from dq_server.core.model.state import State
from dq_server.core.planning import plan_starts
from dq_server.core.policies.base import Start, StartPolicy


class FcfsStart(StartPolicy):
    """Start from the head of the queue, on the initial size (or moldable), while they fit."""

    def __init__(self, config: SchedulerConfig) -> None:
        self._moldable = config.moldable

    def choose(
        self,
        state: State,
        queue: Iterable[Job],
        config: SchedulerConfig,
        now: float,
    ) -> list[Start]:
        """See StartPolicy."""
        if state.has_promises:
            return self._beside_profiles(state, queue, now)
        idle = state.idle
        starts: list[Start] = []
        for job in queue:
            configuration = fitting(job, idle, self._moldable)
            if configuration is None:
                break
            size = configuration.size
            starts.append(Start(job, configuration, because("started", size=size, idle=idle)))
            idle -= size
        return starts

    def _beside_profiles(self, state: State, queue: Iterable[Job], now: float) -> list[Start]:
        ahead = takewhile(lambda job: not job.spec.profile or state.start_promised(job), queue)
        plan = plan_starts(state, ahead, now, depth=1, moldable=self._moldable)
        idle = state.idle
        starts: list[Start] = []
        for planned in takewhile(lambda planned: planned.start_s <= now, plan.jobs):
            size = planned.configuration.size
            reason = because("started", size=size, idle=idle)
            starts.append(Start(planned.job, planned.configuration, reason))
            idle -= size
        return starts
