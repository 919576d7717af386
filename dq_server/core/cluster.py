"""Nodes come and go, and time passes (walltimes)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dq_server.core import advance, profiles, restarting
from dq_server.core.actions import Action, WarnJob
from dq_server.core.events import GrantsPaused, NodeJoined, NodeLost, Tick
from dq_server.core.jobs import JobState
from dq_server.core.lifecycle import finish, kill
from dq_server.core.reasons import because

if TYPE_CHECKING:
    from dq_server.core.scheduler import Scheduler


def node_joined(s: Scheduler, event: NodeJoined, now: float, actions: list[Action]) -> None:
    """A node offers its processors."""
    owned = [p for job in s.state.active.values() for p in job.holds()]
    s.state.processors.join(event.node, event.processors, event.speed, owned)
    restarting.prefer_anew(s)
    s.schedule(now, actions)


def node_lost(s: Scheduler, event: NodeLost, now: float, actions: list[Action]) -> None:
    """Missing heartbeats: kill the jobs on the node everywhere, reclaim their processors.

    Source: ReSHAPE thesis, 3.4.2. A job whose first node is lost, where its launcher runs even if
    no rank is left there, has nobody to report its end, so it ends here; the others end when the
    first node's agent says so. Protected jobs start again instead of failing.
    """
    reason = because("node_lost", node=event.node, why=event.why)
    restarting.blame_node(s, event.node, reason)
    lost = set(s.state.processors.lose(event.node))
    for job in list(s.state.active.values()):
        first_lost = job.first_processor in lost
        if not first_lost and lost.isdisjoint(job.holds()):
            continue
        kill(s, job, reason, now, actions)
        if first_lost and restarting.may_restart(job):
            restarting.interrupted(s, job, reason, now, actions)
        elif first_lost:
            finish(s, job, JobState.FAILED, reason, now, actions)
    restarting.settle(s, now, actions)
    restarting.prefer_anew(s)
    s.schedule(now, actions)


def grants_paused(s: Scheduler, event: GrantsPaused, now: float, actions: list[Action]) -> None:
    """The shell cannot carry grants out for a while, or can again."""
    s.state.paused = (event.why or "paused") if event.paused else ""
    for job in s.state.profiles.values():  # nobody could release anything in the meantime
        job.behind_s = None
    s.schedule(now, actions)


def tick(s: Scheduler, event: Tick, now: float, actions: list[Action]) -> None:  # noqa: ARG001
    """Walltimes: a warning before the end, then the end."""
    for job in list(s.state.profiles.values()):
        why = profiles.overstays(s, job, now)
        if why is not None:
            kill(s, job, why, now, actions)
    for job in list(s.state.active.values()):
        walltime_s = job.spec.walltime_s
        if walltime_s is None or job.start_s is None or job.state is JobState.KILLING:
            continue
        left_s = job.start_s + walltime_s - now
        if left_s <= 0:
            kill(s, job, because("walltime", walltime_s=walltime_s), now, actions)
        elif left_s <= s.config.walltime_warning_s and not job.warned:
            job.warned = True
            reason = because("walltime_warning", left_s=left_s, walltime_s=walltime_s)
            job.note(now, "warning", reason)
            actions.append(WarnJob(job.id, reason))
    if s.state.booked:
        for job, why in advance.in_the_way(s.state, now):
            if job.state is not JobState.KILLING:  # its own may end when another one begins
                kill(s, job, why, now, actions)
    s.schedule(now, actions)


def next_deadline(s: Scheduler, now: float) -> float | None:  # noqa: ARG001
    """The earliest moment at which a walltime (or its warning), a time-out or a step is due.

    Also the beginning or end of an advance reservation.
    """
    due: list[float] = []
    for job in s.state.active.values():
        walltime_s = job.spec.walltime_s
        if walltime_s is None or job.start_s is None or job.state is JobState.KILLING:
            continue
        end = job.start_s + walltime_s
        warn = end - s.config.walltime_warning_s
        due.append(end if job.warned else max(warn, job.start_s))
    waiting = (job.dynamic for job in s.state.requests.values())
    due += [asked.deadline_s for asked in waiting if asked and asked.deadline_s < float("inf")]
    due += profiles.deadlines(s)
    due += advance.deadlines(s.state)
    return min(due, default=None)
