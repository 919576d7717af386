"""Why is a job where it is? Answered from the state at the moment of asking (`dq why`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dq_server.core import advance, dependencies, profiles
from dq_server.core.jobs import ENDED, Job, JobKind, JobState
from dq_server.core.planning import INF, free
from dq_server.core.policies.fitting import smallest_start
from dq_server.core.reasons import Reason, because

if TYPE_CHECKING:
    from dq_server.core.scheduler import Scheduler


def explain(s: Scheduler, job: Job, now: float) -> list[Reason]:
    """The reasons that hold now, most important first."""
    if job.state in ENDED:
        return [job.end_reason] if job.end_reason else []
    if job.state is JobState.HELD:
        why = [job.decisions[-1].reason] if job.decisions else []
        return [r for r in why if r.code == "dependency_failed"] + [because("held", job=job.id)]
    if job.state is JobState.WAITING:
        return [dependencies.explain(s.state, job)]
    if job.state is JobState.RESTARTING:
        waits = because("restarting")
        return [waits, job.end_reason] if job.end_reason else [waits]
    if job.state is JobState.QUEUED:
        return _waiting(s, job, now)
    return _running(job, now)


def _waiting(s: Scheduler, job: Job, now: float) -> list[Reason]:
    idle, size = s.state.idle, smallest_start(job, moldable=False)
    head = next(iter(s.state.line(now)), job)
    if s.state.paused:
        return [because("paused", why=s.state.paused)]
    if job.spec.profile:
        return profiles.explain(s, job, now)
    if job.spec.reservation in s.state.booked:
        return [advance.explain(s, job, now)]
    capacity = s.state.processors.capacity
    reasons = [because("waits_for_processors", size=size, idle=idle)]
    if size > capacity:
        reasons = [because("too_small_left", size=size, capacity=capacity)]
    elif size <= idle and s.state.spoken_for:
        planned_s = job.spec.planned_s
        usable = free(s.state, now, INF if planned_s is None else now + planned_s)
        reasons = [because("waits_for_profiles", size=size, idle=idle, free=usable)]
    if head.id != job.id:
        head_size = smallest_start(head, moldable=False)
        reasons.insert(0, because("waits_behind", head=head.id, head_size=head_size, idle=idle))
    return reasons


def _running(job: Job, now: float) -> list[Reason]:
    reasons: list[Reason] = []
    if job.state is JobState.KILLING and job.end_reason is not None:
        reasons.append(job.end_reason)
    if job.remap_points == 0 and job.start_s is not None and job.spec.kind is JobKind.MALLEABLE:
        reasons.append(because("no_remap_point", running_s=now - job.start_s))
    if job.decisions:
        reasons.append(job.decisions[-1].reason)
    return reasons + _protection(job)


def _protection(job: Job) -> list[Reason]:
    """What its copies cost, and whether the newest could be made."""
    copies, reasons = job.copies, []
    if copies.count:
        mib = copies.nbytes / (1 << 20)
        figures = {"count": copies.count, "step": copies.step, "last_s": copies.last_s, "mib": mib}
        reasons.append(because("protected", total_s=copies.total_s, **figures))
    if copies.error:
        reasons.append(because("unprotected", why=copies.error))
    return reasons
