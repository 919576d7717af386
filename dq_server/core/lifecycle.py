"""The life of a job: submitted, started, ended, killed, held. See jobs.TRANSITIONS."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from dq_server.core import advance, dependencies, history, restarting
from dq_server.core.actions import Action, JobAccepted, JobFinished, KillJob, VacateProcessors
from dq_server.core.errors import InfeasibleRequest, InvalidTransition
from dq_server.core.events import (
    HoldRequested,
    JobEnded,
    JobGaveUp,
    JobStarted,
    JobSubmitted,
    KillRequested,
    ProcessorsVacated,
    ReleaseRequested,
)
from dq_server.core.jobs import ENDED, Job, JobState
from dq_server.core.protection import torn_down
from dq_server.core.reasons import Reason, because

if TYPE_CHECKING:
    from dq_server.core.scheduler import Scheduler

# A job that is killed for one of these has failed: nobody asked for it.
KILLED_FOR_CAUSE = frozenset(
    {"node_lost", "walltime", "profile_overstays", "reservation_begins", "reservation_over"}
)


def submitted(s: Scheduler, event: JobSubmitted, now: float, actions: list[Action]) -> None:
    """A new job enters the queue; the same request id again yields the same job."""
    spec, state = event.spec, s.state
    known = state.by_request.get(spec.request_id) if spec.request_id else None
    if known is not None:
        actions.append(JobAccepted(known))
        return
    spec.validate()
    capacity = state.processors.capacity
    if spec.needed > capacity:
        raise InfeasibleRequest(
            f"the job asks for {spec.needed} processors, the cluster has {capacity}"
        )
    if spec.reservation:
        advance.admit(state, spec, now)
    waits = dependencies.unmet(s, spec) if spec.after or spec.after_any else []
    job = Job(state.next_job, spec, JobState.HELD, now, keep_decisions=s.config.keep_decisions)
    job.unmet = waits
    job.state = dependencies.first_state(s, job, now)
    state.next_job += 1
    state.jobs[job.id] = job
    if spec.request_id:
        state.by_request[spec.request_id] = job.id
    actions.append(JobAccepted(job.id))
    history.prefer(s, job, now)
    dependencies.enter(state, job)
    if job.state is JobState.QUEUED:
        s.schedule(now, actions)


def _current(s: Scheduler, job_id: int, instance: int) -> Job | None:
    """The job if this instance of it is the current one and active; None for old news."""
    job = s.state.job(job_id)
    return job if job.instance == instance and job.id in s.state.active else None


def started(s: Scheduler, event: JobStarted, now: float, actions: list[Action]) -> None:  # noqa: ARG001
    """The agent's start signal."""
    job = _current(s, event.job, event.instance)
    if job is not None and job.state is JobState.STARTING:
        job.move(JobState.RUNNING)


def ended(s: Scheduler, event: JobEnded, now: float, actions: list[Action]) -> None:
    """The agent's end signal. Processors return when the nodes say that they are empty."""
    job = _current(s, event.job, event.instance)
    if job is None:
        return
    job.exit_code = event.exit_code
    if job.state is JobState.KILLING:
        assert job.end_reason is not None, "killing starts with a reason"
        failed = job.end_reason.code in KILLED_FOR_CAUSE
        if restarting.may_restart(job):
            restarting.interrupted(s, job, job.end_reason, now, actions)
            s.schedule(now, actions)
            return
        finish(s, job, JobState.FAILED if failed else JobState.KILLED, job.end_reason, now, actions)
    elif job.spec.protection is not None and _interrupted(job, event):
        restarting.interrupted(s, job, _why(event), now, actions)
    elif event.error:
        code = "launch_failed" if job.state is JobState.STARTING else "processes_lost"
        reason = because(code, why=event.error)
        finish(s, job, JobState.FAILED, reason, now, actions)
    else:
        if job.state is JobState.STARTING:  # so short that the start signal came second
            job.move(JobState.RUNNING)
        vanished = s.config.farewells and job.resizes > 0 and not job.work_done
        well = event.exit_code == 0 and not vanished
        code = "vanished" if event.exit_code == 0 and vanished else "exit"
        reason = because(code, exit_code=event.exit_code)
        finish(s, job, JobState.DONE if well else JobState.FAILED, reason, now, actions)
    s.schedule(now, actions)


def _interrupted(job: Job, event: JobEnded) -> bool:
    """Whether a protected job's end may be somebody else's fault; one never launched just fails.

    One that came to remap points and ended well without a word (WorkDone) has lost a rank.
    """
    if event.exit_code == 0:
        return job.answer is not None and not job.work_done
    return not (event.error and job.state is JobState.STARTING)


def _why(event: JobEnded) -> Reason:
    if event.error:
        return because("processes_lost", why=event.error)
    code = "vanished" if event.exit_code == 0 else "exit"
    if torn_down(event.exit_code):
        code = "torn_down"
    return because(code, exit_code=event.exit_code)


def gave_up(s: Scheduler, event: JobGaveUp, now: float, actions: list[Action]) -> None:  # noqa: ARG001
    """The application says why it will end; its end follows."""
    job = _current(s, event.job, event.instance)
    if job is not None and not job.gave_up:
        job.gave_up = event.why


def finish(
    s: Scheduler, job: Job, to: JobState, reason: Reason, now: float, actions: list[Action]
) -> None:
    """Move a job to an end state and let go of its processors.

    Jobs that can never start without its success end with it, and those that wait for them.
    """
    _finish_one(s, job, to, reason, now, actions)
    doomed = deque(dependencies.ended(s, job, now))
    while doomed:
        follower, why = doomed.popleft()
        if follower.state not in ENDED:
            _finish_one(s, follower, JobState.KILLED, why, now, actions)
            doomed += dependencies.ended(s, follower, now)
    state = s.state
    while len(state.ended) > s.config.keep_ended:
        old = state.jobs.pop(state.ended.popleft())
        state.by_request.pop(old.spec.request_id, None)


def _finish_one(
    s: Scheduler, job: Job, to: JobState, reason: Reason, now: float, actions: list[Action]
) -> None:
    job.move(to)
    state = s.state
    job.end_s, job.end_reason = now, reason
    history.remember(s, job, to)
    dependencies.give_up(state, job)
    state.restarting.pop(job.id, None)
    state.ended.append(job.id)
    give_up_processors(s, job, now, actions)
    job.note(now, str(to), reason)
    actions.append(JobFinished(job.id, to, reason))


def give_up_processors(s: Scheduler, job: Job, now: float, actions: list[Action]) -> None:
    """A job that is not active any more lets go of all it holds and asked for."""
    state = s.state
    leaving = job.holds()
    s.charge(job, now)
    job.allocation, job.resize, job.dynamic, job.release = [], None, None, None
    job.inside = ""
    state.active.pop(job.id, None)
    state.requests.pop(job.id, None)
    state.ledger.forget(job.id)
    if job.planned is not None:
        state.unplan(job)
    let_go(s, job, leaving, actions)


def let_go(s: Scheduler, job: Job, leaving: list[int], actions: list[Action]) -> None:
    """Processors leave a job: idle at once, or once the node confirms that they are empty."""
    processors = s.state.processors
    if not s.config.confirm_vacated:
        processors.give_back(leaving)
        return
    pending = processors.start_vacating(leaving, job.id)
    if pending:
        actions.append(VacateProcessors(job.id, job.instance, pending))


def vacated(s: Scheduler, event: ProcessorsVacated, now: float, actions: list[Action]) -> None:
    """A node confirms that a job has no process left on its processors."""
    pool = s.state.processors
    which = event.processors or [p for p, job in pool.vacating.items() if job == event.job]
    pool.vacated(which, event.job)
    restarting.settle(s, now, actions)
    s.schedule(now, actions)


def kill(s: Scheduler, job: Job, reason: Reason, now: float, actions: list[Action]) -> None:
    """Kill a job in any state but an end state."""
    if job.state in (JobState.QUEUED, JobState.HELD, JobState.WAITING, JobState.RESTARTING):
        finish(s, job, JobState.KILLED, reason, now, actions)
        s.schedule(now, actions)
        return
    if job.state is not JobState.KILLING:
        job.move(JobState.KILLING)
        s.state.requests.pop(job.id, None)
        s.state.profiles.pop(job.id, None)
        s.state.plan(job, now)
        job.end_reason = reason
        job.note(now, "kill", reason)
    actions.append(KillJob(job.id, job.instance, tuple(job.holds()), reason))


def kill_requested(s: Scheduler, event: KillRequested, now: float, actions: list[Action]) -> None:
    """`dq kill`."""
    job = s.state.job(event.job)
    if job.state in ENDED:
        raise InvalidTransition(f"job {job.id} has ended already ({job.state})")
    kill(s, job, because("killed_by_user", user=event.user or "the user"), now, actions)


def hold_requested(s: Scheduler, event: HoldRequested, now: float, actions: list[Action]) -> None:
    """`dq hold`: only a job that has not started can be held."""
    job = s.state.job(event.job)
    job.move(JobState.HELD)
    dependencies.leave(s.state, job)
    job.scheduled = None
    job.note(now, "hold", because("held", job=job.id))
    s.schedule(now, actions)


def release_requested(
    s: Scheduler, event: ReleaseRequested, now: float, actions: list[Action]
) -> None:
    """`dq release`: back into the queue, or to waiting for other jobs."""
    job = s.state.job(event.job)
    if job.state is not JobState.HELD:
        raise InvalidTransition(f"job {job.id} is {job.state}, not held")
    job.move(dependencies.released(job))
    dependencies.enter(s.state, job)
    s.schedule(now, actions)
