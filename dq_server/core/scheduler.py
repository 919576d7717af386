"""The scheduler: one door in, actions out.

`Scheduler.handle(event, now) -> list[Action]` is the only way the state changes. The same events at
the same times give the same actions, live, simulated and replayed. A handler validates first and
changes afterwards: an event that raises has changed nothing.

Theory of operation. Events fall into three families, one module each: the life of a job
(lifecycle.py), remap points and resizes (resizing.py), nodes and time (cluster.py). After any
event that may have freed processors or added work, one scheduling pass asks the order and the start
policy who starts now.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dq_server.core import cluster, events, lifecycle, resizing
from dq_server.core.actions import Action, StartJob
from dq_server.core.config import SchedulerConfig
from dq_server.core.events import Event
from dq_server.core.jobs import Job, JobKind, JobState, Stay
from dq_server.core.policies import registry
from dq_server.core.policies.base import Start
from dq_server.core.state import State

Handler = Callable[["Scheduler", Any, float, list[Action]], None]

HANDLERS: dict[type, Handler] = {
    events.NodeJoined: cluster.node_joined,
    events.NodeLost: cluster.node_lost,
    events.Tick: cluster.tick,
    events.JobSubmitted: lifecycle.submitted,
    events.JobStarted: lifecycle.started,
    events.JobEnded: lifecycle.ended,
    events.ProcessorsVacated: lifecycle.vacated,
    events.KillRequested: lifecycle.kill_requested,
    events.HoldRequested: lifecycle.hold_requested,
    events.ReleaseRequested: lifecycle.release_requested,
    events.RemapPoint: resizing.remap_point,
    events.ResizeCommitted: resizing.committed,
    events.ResizeAborted: resizing.aborted,
    events.ResizeRequested: resizing.resize_requested,
}


class Scheduler:
    """The scheduler's state and policies. See the module's docstring."""

    def __init__(self, config: SchedulerConfig | None = None, state: State | None = None) -> None:
        self.config = config or SchedulerConfig()
        self.config.validate()
        self.state = state or State()
        self.order = registry.order_policy(self.config)
        self.start = registry.start_policy(self.config)
        self.resize = registry.resize_policy(self.config)

    def handle(self, event: Event, now: float) -> list[Action]:
        """Take in one event at time `now` (seconds); returns what shall be done, in order.

        Raises a SchedulerError, having changed nothing, if the event is not legal now.
        """
        actions: list[Action] = []
        HANDLERS[type(event)](self, event, now, actions)
        return actions

    def schedule(self, now: float, actions: list[Action]) -> None:
        """One scheduling pass: start what the policies choose."""
        state = self.state
        if not state.queue or not state.processors.idle:
            return
        queue = self.order.ordered(state, now)
        for start in self.start.choose(state, queue, self.config, now):
            self._start(start, now, actions)

    def _start(self, start: Start, now: float, actions: list[Action]) -> None:
        job, configuration = start.job, start.configuration
        state = self.state
        job.move(JobState.STARTING)
        del state.queue[job.id]
        state.active[job.id] = job
        job.instance += 1
        job.allocation = list(state.processors.take(configuration.size))
        job.configuration = configuration
        job.start_s = now
        if job.spec.kind is not JobKind.RIGID:
            job.stays.append(Stay(configuration, now))
        job.note(now, "start", start.reason)
        actions.append(
            StartJob(job.id, job.instance, tuple(job.allocation), configuration, start.reason)
        )

    def next_wakeup(self, now: float) -> float | None:
        """When a Tick is needed at the latest if nothing else happens (None: never)."""
        return cluster.next_deadline(self, now)

    def job(self, job_id: int) -> Job:
        """The job, or UnknownJob."""
        return self.state.job(job_id)
