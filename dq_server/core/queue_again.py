"""A job whose start cannot be accounted for waits again, as if it had not started."""

from __future__ import annotations

from dq_server.core.model.actions import StartJob
from dq_server.core.model.jobs import Job, JobState
from dq_server.core.model.reasons import Reason
from dq_server.core.turn import Turn


def queue_again(
    turn: Turn,
    job: Job,
    why: Reason,
    start: StartJob | None = None,
    ran_on: frozenset[int] = frozenset(),
) -> None:
    """The job waits again; where its processes may be nothing starts until they are gone."""
    state = turn.state
    if job.id in state.active:
        turn.stop(job)
    if start is not None:
        job.instance = max(job.instance, start.instance)  # the next start is another one
        there = tuple(sorted(ran_on & set(state.processors.idle)))
        state.processors.claim(there)
        state.processors.start_vacating(there, job.id)
    if job.state is not JobState.QUEUED:
        turn.withdraw(job)
        job.state = JobState.QUEUED
        turn.enqueue(job)
    job.end_reason = None
    job.note(turn.now, "restart", why)
