"""FCFS start: jobs start in queue order; the first that does not fit stops the rest.

Source: ReSHAPE thesis, 3.4.1: a job waits until processors for its initial size are there.
"""

from __future__ import annotations

from collections.abc import Iterable

from dq_server.core.config import SchedulerConfig
from dq_server.core.jobs import Job
from dq_server.core.policies.base import Start
from dq_server.core.policies.fitting import fitting
from dq_server.core.reasons import because
from dq_server.core.state import State


class FcfsStart:
    """Start from the head of the queue, on the initial size (or moldable), while they fit."""

    promised = None

    def __init__(self, config: SchedulerConfig) -> None:
        self._moldable = config.moldable

    def choose(
        self,
        state: State,
        queue: Iterable[Job],
        config: SchedulerConfig,  # noqa: ARG002
        now: float,  # noqa: ARG002
    ) -> list[Start]:
        """See StartPolicy."""
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
