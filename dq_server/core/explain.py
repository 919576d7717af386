"""Why is a job where it is? Answered from the state at the moment of asking (`dq why`)."""

from __future__ import annotations

from dq_server.core.feature import Feature
from dq_server.core.features.nodes import walltime_end
from dq_server.core.model.jobs import ENDED, Job, JobKind, JobState, smallest_start
from dq_server.core.model.reasons import Reason, because, declare
from dq_server.core.model.watch import has_no_session
from dq_server.core.planning import INF, free
from dq_server.core.pool_queues import under_way
from dq_server.core.scheduler import Scheduler
from dq_server.core.turn import Turn

declare(
    waits_for_processors="the job needs {size} processors, {idle} are idle",
    waits_behind="job {head} is ahead in the queue and needs {head_size}, {idle} are idle",
    waits_for_profiles="the job needs {size} processors; of {idle} idle ones {free} can be used"
    " for as long as it runs, the others are promised to others: profiles, reservations",
    too_small_left="the job's smallest size is {size}, the nodes that are up have {capacity}"
    " processors",
    withheld="{count} processors are not granted, their nodes drain: {nodes}",
    no_remap_point="the application has not reached a remap point in {running_s:.0f} s since it"
    " started, so it can be neither measured nor resized",
    no_session="its program has opened no session of resize_lib in the {running_s:.0f} s since it"
    " started, so it stays on {size} processors and cannot be resized (docs/programs.md)",
)


def explain(s: Scheduler, job: Job, now: float) -> list[Reason]:
    """The reasons that hold now, most important first."""
    if job.state in ENDED:
        return [job.end_reason] if job.end_reason else []
    turn = s.turn(now)
    if job.state is JobState.QUEUED and turn.state.paused:
        return [because("paused", why=turn.state.paused)]
    told = [reason for f in turn.features[Feature.explain] for reason in f.explain(turn, job)]
    if job.state is JobState.HELD:
        return [*told, because("held", job=job.id)]
    if job.state in (JobState.WAITING, JobState.RESTARTING):
        return told
    if job.state is JobState.QUEUED:
        return told or _waiting(turn, job)
    found = [*_running(job, now, told), *told]
    return list({reason.text: reason for reason in found}.values())  # each once


def _waiting(turn: Turn, job: Job) -> list[Reason]:
    """Why a job waits in the queue that no feature has plans for."""
    state, now = turn.state, turn.now
    idle, size = state.idle, smallest_start(job, moldable=False)
    head = next(iter(state.line(now)), job)
    capacity = state.processors.capacity
    reasons = [because("waits_for_processors", size=size, idle=idle)]
    if size > capacity:
        reasons = [because("too_small_left", size=size, capacity=capacity)]
    elif size <= idle and state.has_promises:
        planned_s = job.spec.planned_s
        usable = free(state, now, INF if planned_s is None else now + planned_s)
        reasons = [because("waits_for_profiles", size=size, idle=idle, free=usable)]
    if head.id != job.id:
        head_size = smallest_start(head, moldable=False)
        reasons.insert(0, because("waits_behind", head=head.id, head_size=head_size, idle=idle))
    withheld = state.processors.withheld
    if withheld:
        nodes = ", ".join(dict.fromkeys(state.processors.node_of[p] for p in sorted(withheld)))
        reasons.append(because("withheld", count=len(withheld), nodes=nodes))
    return reasons + under_way(turn, job)


def _running(job: Job, now: float, told: list[Reason]) -> list[Reason]:
    reasons: list[Reason] = []
    if job.state is JobState.KILLING and job.end_reason is not None:
        reasons.append(job.end_reason)
    if job.remap_points == 0 and job.start_s is not None and job.spec.kind is JobKind.MALLEABLE:
        running_s = now - job.start_s
        if has_no_session(job, now):
            reasons.append(because("no_session", running_s=running_s, size=job.size))
        else:
            reasons.append(because("no_remap_point", running_s=running_s))
    # What a feature says now, it says with the figures of now.
    if job.decisions and job.decisions[-1].reason.code not in {reason.code for reason in told}:
        reasons.append(_as_now(job, job.decisions[-1].reason, now))
    return reasons


def _as_now(job: Job, reason: Reason, now: float) -> Reason:
    """The last decision; of a warning, which stays the last for a while, what is left now."""
    end_s = walltime_end(job)
    if reason.code != "walltime_warning" or end_s is None:
        return reason
    left_s = max(0.0, end_s - now)
    return because("walltime_warning", left_s=left_s, walltime_s=job.spec.walltime_s)
