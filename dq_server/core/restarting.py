"""A protected job starts again: from KILLING, STARTING or RUNNING through RESTARTING to QUEUED.

In RESTARTING nothing is decided yet. The job waits until the nodes have confirmed that no process
of its last start is left, because two starts must never run at once, and because only then it is
known what happened: when a node dies the launcher on another one notices at once and reports
whatever exit code comes of it, the missing heartbeats tell seconds later. Then the job goes back to
its place in the queue, or it fails with the reason why it is not restarted.

It may start on any legal size: it continues on the largest one up to its last that there is room
for (`Job.preferred`, policies/fitting.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dq_server.core import dependencies, lifecycle
from dq_server.core.actions import Action, JobRestarts
from dq_server.core.events import CopyMade, WorkDone
from dq_server.core.jobs import Job, JobKind, JobState
from dq_server.core.reasons import Reason, because
from dq_server.core.sizes import largest_at_most

if TYPE_CHECKING:
    from dq_server.core.scheduler import Scheduler

# Ends that were done to the job.
NOT_ITS_FAULT = frozenset({"node_lost", "processes_lost", "torn_down", "vanished"})


def may_restart(job: Job) -> bool:
    """Whether a job that is being killed is protected and killed for a lost node alone."""
    why = job.end_reason
    return job.spec.protection is not None and why is not None and why.code == "node_lost"


def interrupted(s: Scheduler, job: Job, reason: Reason, now: float, actions: list[Action]) -> None:
    """A protected job's start is over and not by its own end: wait for its nodes, then decide."""
    job.move(JobState.RESTARTING)
    if job.gave_up:
        reason = because("gave_up", why=job.gave_up)
    job.end_reason = reason
    s.state.restarting[job.id] = job
    lifecycle.give_up_processors(s, job, now, actions)
    job.note(now, "interrupted", reason)
    settle(s, now, actions)


def settle(s: Scheduler, now: float, actions: list[Action]) -> None:
    """Decide about the jobs whose nodes are clear."""
    leaving = set(s.state.processors.vacating.values()) if s.state.restarting else set()
    for job in list(s.state.restarting.values()):
        if job.id not in leaving:
            _decide(s, job, now, actions)


def blame_node(s: Scheduler, node: str, reason: Reason) -> None:
    """A node is about to be given up that jobs have not left yet: that is what ended them."""
    pool = s.state.processors
    leaving = {job for p, job in pool.vacating.items() if pool.node_of[p] == node}
    for job in s.state.restarting.values():
        if job.id in leaving and not job.gave_up:
            job.end_reason = reason


def work_done(s: Scheduler, event: WorkDone, now: float, actions: list[Action]) -> None:  # noqa: ARG001
    """Nothing is missing any more: an exit code of 0 means what it says."""
    job = s.state.job(event.job)
    if job.instance == event.instance:
        job.work_done = True


def copy_made(s: Scheduler, event: CopyMade, now: float, actions: list[Action]) -> None:  # noqa: ARG001
    """The application reports a copy; a failed one leaves the figures of the last good one."""
    job = s.state.job(event.job)
    copies = job.copies
    if job.instance != event.instance or job.id not in s.state.active:
        return
    if event.error != copies.error:
        what = "unprotected" if event.error else "protected_again"
        job.note(now, "copy", because(what, why=event.error, step=event.step))
    copies.error = event.error
    copies.total_s += event.took_s
    if not event.error:
        copies.count += 1
        copies.step, copies.last_s, copies.nbytes = event.step, event.took_s, event.nbytes


def _decide(s: Scheduler, job: Job, now: float, actions: list[Action]) -> None:
    protection, reason = job.spec.protection, job.end_reason
    assert protection is not None, "only protected jobs are interrupted"
    assert reason is not None
    if reason.code not in NOT_ITS_FAULT:
        lifecycle.finish(s, job, JobState.FAILED, reason, now, actions)
    elif job.restarts >= protection.restarts:
        told = because("restarts_used", restarts=job.restarts, why=reason.text)
        lifecycle.finish(s, job, JobState.FAILED, told, now, actions)
    else:
        _requeue(s, job, reason, now, actions)


def _requeue(s: Scheduler, job: Job, why: Reason, now: float, actions: list[Action]) -> None:
    job.move(JobState.QUEUED)
    del s.state.restarting[job.id]
    job.restarts += 1
    assert job.spec.protection is not None
    limit, copies = job.spec.protection.restarts, job.copies
    code = "restart" if copies.count else "restart_afresh"
    reason = because(code, restarts=job.restarts, limit=limit, step=copies.step, why=why.text)
    job.begin_again(reason)
    prefer(s, job)
    dependencies.enter(s.state, job)
    job.note(now, "restart", reason)
    actions.append(JobRestarts(job.id, job.instance, reason))


def prefer(s: Scheduler, job: Job) -> None:
    """Which size a restarted job is planned on: the largest up to its last that can ever fit."""
    last = job.configuration or job.spec.initial
    if job.spec.kind is JobKind.RIGID:
        return
    room = min(last.size, s.state.processors.capacity)
    job.start_on = largest_at_most(job.spec.configurations, room) or job.spec.configurations[0]


def prefer_anew(s: Scheduler) -> None:
    """Nodes have come or gone: look again at the restarted jobs that wait."""
    for job in s.state.queue.values():
        if job.restarts:
            prefer(s, job)
