"""The scheduler: one door in, actions out.

`Scheduler.handle(event, now) -> list[Action]` is the only way the state changes. The same events at
the same times give the same actions, live, simulated and replayed. A handler validates first and
changes afterwards: an event that raises has changed nothing.

Theory of operation. Events fall into four families, one module each: the life of a job
(lifecycle.py), remap points and resizes (resizing.py), what applications ask for (dynamic.py),
nodes and time (cluster.py). After any
event that may have freed processors or added work, one scheduling pass serves the dynamic requests
(dynamic.py) and the profiles known in advance (profiles.py), starts what
has an advance reservation (advance.py), and asks the order and the start
policy who else starts now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dq_server.core import (
    advance,
    cluster,
    dynamic,
    events,
    history,
    lifecycle,
    profiles,
    resizing,
    restarting,
)
from dq_server.core.actions import Action, CallRemap, StartJob
from dq_server.core.config import SchedulerConfig
from dq_server.core.events import Event
from dq_server.core.jobs import Job, JobKind, JobState, Stay
from dq_server.core.policies import registry
from dq_server.core.policies.base import Start
from dq_server.core.state import State

Handler = Callable[["Scheduler", Any, float, list[Action]], None]


def _configured(s: Scheduler, event: events.Configured, now: float, actions: list[Action]) -> None:
    s.configure(event.config)
    s.schedule(now, actions)


INF = float("inf")

HANDLERS: dict[type, Handler] = {
    events.Configured: _configured,
    events.NodeJoined: cluster.node_joined,
    events.NodeLost: cluster.node_lost,
    events.Tick: cluster.tick,
    events.GrantsPaused: cluster.grants_paused,
    events.JobSubmitted: lifecycle.submitted,
    events.JobStarted: lifecycle.started,
    events.JobEnded: lifecycle.ended,
    events.JobGaveUp: lifecycle.gave_up,
    events.CopyMade: restarting.copy_made,
    events.WorkDone: restarting.work_done,
    events.ProcessorsVacated: lifecycle.vacated,
    events.KillRequested: lifecycle.kill_requested,
    events.HoldRequested: lifecycle.hold_requested,
    events.ReleaseRequested: lifecycle.release_requested,
    events.RemapPoint: resizing.remap_point,
    events.ResizeCommitted: resizing.committed,
    events.ResizeAborted: resizing.aborted,
    events.ResizeRequested: resizing.resize_requested,
    events.DynamicRequested: dynamic.requested,
    events.DynamicReleased: dynamic.released,
    events.ReservationMade: advance.made,
    events.ReservationCancelled: advance.cancelled,
}


# After these, what a start policy worked out still holds for the jobs it looked at (State.changes).
ADDS_ONLY = frozenset({events.JobSubmitted, events.JobStarted})


class Scheduler:
    """The scheduler's state and policies. See the module's docstring."""

    def __init__(self, config: SchedulerConfig | None = None, state: State | None = None) -> None:
        self.state = state or State()
        self._together = False
        self.configure(config or SchedulerConfig())

    def configure(self, config: SchedulerConfig) -> None:
        """Take over a configuration; ConfigError, and nothing changed, if it makes no sense."""
        config.validate()
        order, start, resize, grant = (
            registry.order_policy(config),
            registry.start_policy(config),
            registry.resize_policy(config),
            registry.grant_policy(config),
        )
        self.config, self.order, self.start, self.resize = config, order, start, resize
        self.grant = grant
        self.state.ordered = order.ordered

    def handle(self, event: Event, now: float) -> list[Action]:
        """Take in one event at time `now` (seconds); returns what shall be done, in order.

        Raises a SchedulerError, having changed nothing, if the event is not legal now.
        """
        actions: list[Action] = []
        kind = type(event)
        if kind not in ADDS_ONLY:
            self.state.changes += 1
        HANDLERS[kind](self, event, now, actions)
        return actions

    def handle_together(self, batch: Iterable[Event], now: float) -> list[Action]:
        """Take in the events of one instant, all of them legal, then make one scheduling pass.

        Processors that become idle at the same instant are seen together, as in the textbooks.
        """
        actions: list[Action] = []
        self._together = True
        try:
            for event in batch:
                kind = type(event)
                if kind not in ADDS_ONLY:
                    self.state.changes += 1
                HANDLERS[kind](self, event, now, actions)
        finally:
            self._together = False
        self.schedule(now, actions)
        return actions

    def schedule(self, now: float, actions: list[Action]) -> None:
        """One scheduling pass: start what the policies choose, call whom they want to resize."""
        state = self.state
        if self._together or state.paused:
            return
        if state.requests:
            dynamic.serve(self, now, actions)
        if state.profiles:
            for start in profiles.serve(self, now, actions):
                self._start(start, now, actions)
        if state.booked:
            for start in advance.starts(self, now):
                start.job.inside = start.job.spec.reservation
                self._start(start, now, actions)
        if state.queue and (state.idle or self.start.promised is not None):
            queue = state.line(now)
            starts = self.start.choose(state, queue, self.config, now)
            if self.start.promised is not None:
                state.promised = self.start.promised
            for start in starts:
                self._start(start, now, actions)
        for job in self.resize.calls(state, self.config, now):
            job.called = True
            actions.append(CallRemap(job.id, job.instance))

    def _start(self, start: Start, now: float, actions: list[Action]) -> None:
        job, configuration = start.job, start.configuration
        if job.restarts:
            configuration = job.on_best_grid(configuration)
        state = self.state
        job.move(JobState.STARTING)
        del state.queue[job.id]
        state.ledger.forget(job.id)
        state.active[job.id] = job
        job.instance += 1
        job.request_answer = None
        job.allocation = list(state.processors.take(configuration.size))
        job.first_processor = job.allocation[0]
        job.configuration = configuration
        job.start_s = now
        job.charged_s = now
        if job.scheduled is not None:
            profiles.started(job)
            state.plan(job, job.scheduled.end_s)
        else:
            planned_s = job.spec.planned_on_s(configuration.size)
            state.plan(job, INF if planned_s is None else now + planned_s)
        if job.spec.kind is not JobKind.RIGID:
            job.stays.append(Stay(configuration, now))
        job.note(now, "start", start.reason)
        history.recall(self, job, now)
        actions.append(
            StartJob(job.id, job.instance, tuple(job.allocation), configuration, start.reason)
        )

    def charge(self, job: Job, now: float) -> None:
        """The job stops using what it holds now: its user's usage grows (fairshare.py)."""
        if self.order.charges and job.charged_s is not None:
            used = job.size * (now - job.charged_s)
            half_life_s = self.config.priority.half_life_s
            self.state.usage.charge(job.spec.user, used, now, half_life_s)
            job.charged_s = now

    def next_wakeup(self, now: float) -> float | None:
        """When a Tick is needed at the latest if nothing else happens (None: never)."""
        return cluster.next_deadline(self, now)

    def job(self, job_id: int) -> Job:
        """The job, or UnknownJob."""
        return self.state.job(job_id)
