"""Jobs that wait for others to end: `after` (successfully) and `after_any` (in whatever way).

A job with unmet dependencies is WAITING, outside the queue: nobody stands behind it and no policy
sees it. When the last of them is met it enters the queue at the place its submission gives it. A
dependency that can never be met any more (`after`, and the job failed or was killed) is dealt with
as the configuration says: `dependency_failed = "cancel"` refuses such a submission and ends such a
job, and in turn those that wait for it; `"hold"` puts it on hold, and `dq release` lets it go on
without what failed.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from dq_server.core.errors import InfeasibleRequest, UnknownJob
from dq_server.core.jobs import ENDED, Job, JobSpec, JobState
from dq_server.core.reasons import Reason, because

if TYPE_CHECKING:
    from dq_server.core.scheduler import Scheduler
    from dq_server.core.state import State


def unmet(s: Scheduler, spec: JobSpec) -> list[int]:
    """The jobs that a new job must wait for; raises, nothing changed, if it would wait for ever."""
    waits = []
    for job_id in dict.fromkeys((*spec.after, *spec.after_any)):
        other = s.state.jobs.get(job_id)
        if other is None:
            raise UnknownJob(f"there is no job {job_id} to wait for (or it ended long ago)")
        if other.state not in ENDED:
            waits.append(job_id)
        elif _fails(spec, other) and s.config.dependency_failed == "cancel":
            raise InfeasibleRequest(
                f"job {job_id} is {other.state} and can no longer end successfully: wait for its"
                " end alone (--after-any), or submit it again"
            )
    return waits


def first_state(s: Scheduler, job: Job, now: float) -> JobState:
    """Where a new job with `unmet` filled in begins; an index is kept of who waits for whom."""
    for other in job.unmet:
        s.state.followers.setdefault(other, []).append(job.id)
    failed = [k for k in job.spec.after if _fails(job.spec, s.state.jobs[k])]
    if failed:
        job.note(now, "hold", _failed(s.state.jobs[failed[0]]))
    return JobState.HELD if failed or job.spec.hold else released(job)


def _fails(spec: JobSpec, other: Job) -> bool:
    """Whether `other` is in an end state that the dependency does not allow."""
    return other.id in spec.after and other.state in (JobState.FAILED, JobState.KILLED)


def _failed(other: Job) -> Reason:
    why = other.end_reason.text if other.end_reason else ""
    return because("dependency_failed", other=other.id, state=str(other.state), why=why)


def enter(state: State, job: Job) -> None:
    """Index a job that is QUEUED (at the place its submission gives it) or WAITING."""
    if job.state is JobState.WAITING:
        state.waiting[job.id] = job
    elif job.state is JobState.QUEUED:
        queue = state.queue
        later = list(takewhile(lambda j: j > job.id, reversed(queue)))
        state.reordered += bool(later)
        queue[job.id] = job
        if job.spec.profile:
            state.profiles[job.id] = job
        for other in reversed(later):
            queue.move_to_end(other)


def leave(state: State, job: Job) -> None:
    """The job is no longer QUEUED or WAITING."""
    state.queue.pop(job.id, None)
    state.waiting.pop(job.id, None)
    state.profiles.pop(job.id, None)


def give_up(state: State, job: Job) -> None:
    """The job has ended: it waits for nobody any more."""
    leave(state, job)
    for other in job.unmet:
        state.followers[other].remove(job.id)
    job.unmet.clear()


def released(job: Job) -> JobState:
    """Where a held job goes on."""
    return JobState.WAITING if job.unmet else JobState.QUEUED


def ended(s: Scheduler, job: Job, now: float) -> list[tuple[Job, Reason]]:
    """A job has ended: those that waited for it alone may start.

    Returns those that never can, in order, with the reason: the caller ends them, and this is asked
    about each of them in turn.
    """
    state, hopeless = s.state, []
    for follower in state.followers.pop(job.id, ()):
        waiter = state.jobs[follower]
        waiter.unmet.remove(job.id)
        if _fails(waiter.spec, job):
            reason = _failed(job)
            if s.config.dependency_failed == "cancel":
                hopeless.append((waiter, reason))
                continue
            if waiter.state is JobState.WAITING:
                leave(state, waiter)
                waiter.move(JobState.HELD)
            waiter.note(now, "hold", reason)
        elif waiter.state is JobState.WAITING and not waiter.unmet:
            leave(state, waiter)
            waiter.move(JobState.QUEUED)
            enter(state, waiter)
            waiter.note(now, "queue", because("dependencies_met", other=job.id))
    return hopeless


def explain(state: State, job: Job) -> Reason:
    """What a WAITING job waits for."""
    waits = []
    for k in job.unmet:
        how = "to end successfully" if k in job.spec.after else "to end"
        waits.append(f"job {k} ({state.jobs[k].state}) {how}")
    return because("waits_for_jobs", jobs=", ".join(waits))
