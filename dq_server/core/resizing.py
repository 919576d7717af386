"""Remap points and resizes: the transaction prepare, then commit or abort (DESIGN.md).

prepare   a remap point is answered `expand`, `shrink` or `regrid` (the same processors, another
          grid); an expansion's processors are reserved
commit    the application runs on its new size: processors are booked, or released
abort     the application goes on at its old size: reserved processors return, nothing leaked

Messages get lost: a remap point tells the size it runs on and the last resize it carried out, so a
commit or an abort that never arrived is made up for at the next remap point.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dq_server.core import advance, dynamic, history, profiles
from dq_server.core.actions import Action, AnswerRemap
from dq_server.core.errors import InfeasibleRequest, InvalidTransition
from dq_server.core.events import RemapPoint, ResizeAborted, ResizeCommitted, ResizeRequested
from dq_server.core.jobs import Answer, Job, JobKind, JobState, PendingResize, Stay
from dq_server.core.lifecycle import let_go
from dq_server.core.planning import free
from dq_server.core.policies.base import Verdict
from dq_server.core.reasons import Figure, because
from dq_server.core.sizes import Configuration

if TYPE_CHECKING:
    from dq_server.core.scheduler import Scheduler


# After a resize that failed a job expands again only this many remap points later, twice as many
# each time: what fails once usually fails again.
RETRY_FIRST = 4
RETRY_DOUBLINGS = 8


def remap_point(s: Scheduler, event: RemapPoint, now: float, actions: list[Action]) -> None:
    """An application finished an iteration and asks what to do."""
    job = s.state.job(event.job)
    if job.instance != event.instance or job.state not in (JobState.STARTING, JobState.RUNNING):
        raise InvalidTransition(f"job {job.id} is {job.state}: it has no remap points now")
    if job.answer is not None and event.seq <= job.answer.seq:
        if event.seq == job.answer.seq:
            actions.append(AnswerRemap(job.id, job.instance, job.answer))
        return
    _check_size(job, event)
    if job.state is JobState.STARTING:  # the application was faster than the start signal
        job.move(JobState.RUNNING)
    job.remap_points += 1
    job.called = False
    job.last_remap_s = now
    if job.resize is not None and event.preparing == job.resize.resize_id:
        if job.stays:
            # done, though disturbed: their time does not count
            job.stays[-1].iterations += event.iterations
        answer = _still_preparing(job, job.resize, event.seq, now)
    else:
        _settle_pending(s, job, event, now, actions)
        _record(s, job, event, now)
        answer = _decide(s, job, event.seq, now)
    job.answer = answer
    actions.append(AnswerRemap(job.id, job.instance, answer))


def _still_preparing(job: Job, pending: PendingResize, seq: int, now: float) -> Answer:
    """The granted expansion stands (its id in the answer says so); nothing else is decided."""
    current = job.configuration
    assert current is not None
    reason = because("resize_under_way", size=current.size, next_size=pending.target.size)
    job.note(now, "continue", reason)
    return Answer(seq, "continue", pending.resize_id, (), current, reason)


def _check_size(job: Job, event: RemapPoint) -> None:
    """The application's idea of its size must be ours, before or after the pending resize."""
    pending = job.resize
    happened = pending is not None and event.resize_id == pending.resize_id
    holds = pending.target.size if pending is not None and happened else job.size
    if event.processors != holds:
        raise InvalidTransition(
            f"job {job.id} reports {event.processors} processors, it holds {holds}"
        )


def _settle_pending(
    s: Scheduler, job: Job, event: RemapPoint, now: float, actions: list[Action]
) -> None:
    """The application speaks again: whatever was pending has happened, or has not."""
    pending = job.resize
    if pending is None:
        return
    if event.resize_id == pending.resize_id:
        _commit(s, job, pending, event.redistribution_time_s, now, actions)
    else:
        _abort(s, job, pending, "the application went on without it", now, actions)


def _record(s: Scheduler, job: Job, event: RemapPoint, now: float) -> None:
    config, configuration = s.config, job.configuration
    assert configuration is not None
    job.performance.record(
        configuration, event.iteration_time_s, samples=config.samples, discard=config.discard
    )
    history.check(s, job, now)
    job.settle = max(0, job.settle - 1)
    stay = job.stays[-1] if job.stays else None
    if stay is not None:
        stay.iterations += event.iterations
        stay.iteration_time_s = job.performance.known.get(configuration, event.iteration_time_s)


def _decide(s: Scheduler, job: Job, seq: int, now: float) -> Answer:
    verdict = _verdict(s, job, now)
    current = job.configuration
    assert current is not None
    if verdict.sweet_spot is not None:
        job.performance.sweet_spot, job.performance.worse = verdict.sweet_spot, verdict.worse
    if verdict.judged:
        job.performance.judged = True
    if verdict.kept is not None:
        job.performance.keep(verdict.kept.grid)
        if verdict.reason is not verdict.kept.reason:
            job.note(now, "grid", verdict.kept.reason)
    target = verdict.target
    if target is None or target == current:
        job.note(now, "continue", verdict.reason)
        if job.stays:
            job.stays[-1].reason = verdict.reason
        return Answer(seq, "continue", 0, (), current, verdict.reason)
    what = _kind(current, target)
    pending = _prepare(s, job, seq, target, verdict.processors, now)
    job.note(now, what, verdict.reason)
    if job.stays:
        job.stays[-1].decision, job.stays[-1].reason = what, verdict.reason
    return Answer(seq, what, pending.resize_id, pending.processors, target, verdict.reason)


def _kind(current: Configuration, target: Configuration) -> str:
    if target.size == current.size:
        return "regrid"
    return "expand" if target.size > current.size else "shrink"


def _verdict(s: Scheduler, job: Job, now: float) -> Verdict:
    """The user's wish first, then the policy's."""
    assert job.configuration is not None
    if s.state.paused:
        return Verdict(None, because("paused", why=s.state.paused))
    if job.wanted is not None:
        target, size = job.wanted, job.size
        idle = free(s.state, now, planned_end(job), job)
        if target.size <= size + idle:
            job.wanted = None
            if target.size == size and target != job.configuration:
                grid = str(job.configuration)
                return Verdict(target, because("user_regrid", grid=grid, next_grid=str(target)))
            return Verdict(target, because("user_resize", size=size, next_size=target.size))
        more = target.size - size
        return Verdict(
            None, because("user_resize_waits", next_size=target.size, more=more, idle=idle)
        )
    if job.spec.profile:
        return profiles.verdict(s, job, now)
    if job.spec.kind is JobKind.EVOLVING:
        return dynamic.verdict(job)
    if job.spec.kind is not JobKind.MALLEABLE:
        return Verdict(None, because("not_malleable", kind=str(job.spec.kind)))
    if s.state.booked:
        reserved = advance.verdict(s, job, now)
        if reserved is not None:
            return reserved
    return s.resize.decide(s.state, job, s.config, now)


def _prepare(
    s: Scheduler,
    job: Job,
    seq: int,
    target: Configuration,
    processors: tuple[int, ...],
    now: float,
) -> PendingResize:
    state = s.state
    expand = target.size > job.size
    if processors:
        dynamic.carried_out(job, expand=expand)
    elif expand:
        processors = state.processors.take(target.size - job.size)
    else:
        processors = tuple(job.allocation[target.size :])  # the last ones leave, order is kept
    job.resize = PendingResize(state.next_resize, seq, target, processors, expand, now)
    state.next_resize += 1
    state.plan(job, profiles.granted(job, now) if job.spec.profile else planned_end(job))
    return job.resize


def _commit(
    s: Scheduler,
    job: Job,
    pending: PendingResize,
    redistribution_s: float,
    now: float,
    actions: list[Action],
) -> None:
    before = job.configuration
    assert before is not None
    end_s = _new_end(job, before, pending, now)
    s.charge(job, now)
    job.resize = None
    job.aborts = 0
    job.resizes += 1
    job.configuration = pending.target
    if pending.expand:
        job.allocation.extend(pending.processors)
        s.state.plan(job, end_s)
    elif not pending.processors:
        s.state.plan(job, end_s)
    else:
        pool = s.state.processors
        job.allocation = pool.without(job.allocation, pending.processors)
        s.state.plan(job, end_s)
        let_go(s, job, list(pending.processors), actions)
        if s.state.queue:
            job.settle = s.config.settle
    job.performance.moved(before, pending.target, redistribution_s)
    job.stays.append(Stay(pending.target, now, redistribution_time_s=redistribution_s))
    code, figures = _from_to("committed", before, pending.target)
    job.note(now, "committed", because(code, redistribution_s=redistribution_s, **figures))
    s.schedule(now, actions)


def planned_end(job: Job) -> float:
    """When the active job's processors are expected back (s); +inf: not known."""
    assert job.planned is not None
    return job.planned[0]


def _new_end(job: Job, before: Configuration, pending: PendingResize, now: float) -> float:
    """The planned end after a resize: what was left when it was granted, at the new speed.

    The speed comes from the job's scalability if that is known, else from its measurements; without
    either the old end stands.
    """
    end_s = planned_end(job)
    if job.scheduled is not None:
        return job.scheduled.end_s
    if end_s <= pending.granted_s or end_s == float("inf"):
        return end_s
    target, known = pending.target, job.spec.scalability
    if known is not None:
        ratio = known.ratio(target.size) / known.ratio(before.size)
    else:
        measured = job.performance.known
        if before not in measured or target not in measured:
            return end_s
        ratio = measured[target] / measured[before]
    return now + (end_s - pending.granted_s) * ratio


def _abort(
    s: Scheduler, job: Job, pending: PendingResize, why: str, now: float, actions: list[Action]
) -> None:
    assert job.configuration is not None
    job.resize = None
    if pending.target.size == job.size:
        job.performance.bar(pending.target)
    else:
        job.aborts += 1
        job.settle = max(job.settle, RETRY_FIRST * 2 ** min(job.aborts - 1, RETRY_DOUBLINGS))
    s.state.plan(job, planned_end(job))
    if pending.expand:
        let_go(s, job, list(pending.processors), actions)
    if job.stays:
        job.stays[-1].decision = "continue"
    code, figures = _from_to("aborted", job.configuration, pending.target)
    job.note(now, "aborted", because(code, why=why, **figures))
    s.schedule(now, actions)


def _from_to(
    end: str, before: Configuration, after: Configuration
) -> tuple[str, dict[str, Figure]]:
    """Code and figures of the reason that tells how a resize ended."""
    if before.size == after.size:
        return f"regrid_{end}", {"grid": str(before), "next_grid": str(after)}
    return f"resize_{end}", {"size": before.size, "next_size": after.size}


def _pending(s: Scheduler, job_id: int, instance: int, resize_id: int) -> PendingResize | None:
    """The pending resize with this id; None if it is settled already or of an older instance."""
    job = s.state.job(job_id)
    pending = job.resize
    if pending is None or job.instance != instance or pending.resize_id != resize_id:
        return None
    return pending


def committed(s: Scheduler, event: ResizeCommitted, now: float, actions: list[Action]) -> None:
    """The application carried the resize out."""
    pending = _pending(s, event.job, event.instance, event.resize_id)
    if pending is not None:
        job = s.state.job(event.job)
        _commit(s, job, pending, event.redistribution_time_s, now, actions)


def aborted(s: Scheduler, event: ResizeAborted, now: float, actions: list[Action]) -> None:
    """The application could not carry the resize out."""
    pending = _pending(s, event.job, event.instance, event.resize_id)
    if pending is not None:
        _abort(s, s.state.job(event.job), pending, event.why, now, actions)


def resize_requested(
    s: Scheduler,
    event: ResizeRequested,
    now: float,  # noqa: ARG001
    actions: list[Action],  # noqa: ARG001
) -> None:
    """`dq resize`: remembered until the job's next remap point."""
    job = s.state.job(event.job)
    if job.state not in (JobState.STARTING, JobState.RUNNING):
        raise InvalidTransition(f"job {job.id} is {job.state}: only a running job can be resized")
    if job.spec.kind is not JobKind.MALLEABLE:
        raise InvalidTransition(f"job {job.id} is {job.spec.kind}, not malleable")
    grids = job.spec.grids_of(event.size)
    if grids and event.rows:
        target = next((c for c in grids if c.rows == event.rows), None)
        if target is None:
            legal = ", ".join(map(str, grids))
            asked = f"{event.size} processors in {event.rows} rows"
            raise InfeasibleRequest(f"{asked} is none of the job's grids of this size: {legal}")
    elif grids:
        target = job.on_best_grid(grids[0])
    else:
        legal = ", ".join(str(c.size) for c in job.spec.configurations)
        raise InfeasibleRequest(f"size {event.size} is not among the job's legal sizes {legal}")
    if event.size > s.state.processors.capacity:
        raise InfeasibleRequest(f"the cluster has {s.state.processors.capacity} processors")
    job.wanted = target
