"""Jobs whose evolution is known when they are submitted: the server carries their profiles out.

Source: Klein & Pérez 2011 (evolution/), here online and beside jobs of every other kind. `fit` in
the configuration says how a profile may be delayed and expanded. What was scheduled is a promise:

waiting   Such a job gets its scheduled profile in queue order, beside what running jobs are planned
          to hold, all profiles promised before, and the reservations of the jobs ahead of it. At
          every pass it is placed again while all others keep their place, so that it never ends
          later than promised, unless the promise cannot be kept (somebody overstays, a node is
          lost): then it is made again.
running   At its first remap point after each change-point the job is resized to what its scheduled
          profile says. The processors of an expansion are kept for it: whoever plans, starts or
          expands sees the profiles as taken (planning.py).

Deviations, where the papers are silent. Change-points are moments, not amounts of work: a remap
point that comes late uses up the job's own time. If it is the cluster that is late (the processors
of an expansion are not there because somebody overstays), the current step gets longer and all
later steps move by as much. A job that still holds what it had to release `profile_grace_s` after
the moment, the end of the profile included, is killed: others were promised these processors.

All moments are whole seconds, as in the papers, so that sums of times stay exact.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, floor
from typing import TYPE_CHECKING

from dq_server.core.actions import Action, CallRemap, WarnJob
from dq_server.core.dynamic import configuration_of
from dq_server.core.evolution.plan import place
from dq_server.core.evolution.profile import (
    EvolutionProfile,
    InfeasibleProfileError,
    ScheduledProfile,
)
from dq_server.core.evolution.rules import fit_rule
from dq_server.core.jobs import ACTIVE, Job, JobState
from dq_server.core.planning import INF, running
from dq_server.core.policies.base import Start, Verdict
from dq_server.core.reasons import Reason, because
from dq_server.core.stepfunction import StepFunction

if TYPE_CHECKING:
    from dq_server.core.scheduler import Scheduler
    from dq_server.core.state import State


def serve(s: Scheduler, now: float, actions: list[Action]) -> list[Start]:
    """Part of every scheduling pass: who starts now. Calls those whose moment has come."""
    jobs = list(s.state.profiles.values())
    for job in jobs:
        if job.state in ACTIVE:
            _watch(s, job, now, actions)
    waiting = [job for job in jobs if job.state is JobState.QUEUED]
    if s.config.start == "none":
        for job in waiting:
            job.scheduled = None
        return []
    if not waiting:
        return []
    _place_waiting(s, now)
    return _due(s, now)


# --- waiting ---------------------------------------------------------------------------------


def _place_waiting(s: Scheduler, now: float) -> None:
    """Make and renew the promises of the waiting jobs, see the module's docstring."""
    state, capacity, rule = s.state, s.state.processors.capacity, fit_rule(s.config.fit)
    line = list(state.line(now))
    while line and not line[-1].spec.profile:
        line.pop()
    from_s = ceil(now)
    taken = running(state, now, to_promise=True).on_whole_seconds(from_s)
    for job in line:
        if job.spec.profile:
            _keep(s, job, taken, now)
    for job in line:
        if not job.spec.profile:
            _reserve(taken, job, capacity, from_s)
            continue
        old = job.scheduled
        if old is not None:
            if old.start_s <= now:
                continue
            old.give_back(taken)
        try:
            new = place(EvolutionProfile(job.spec.profile), taken, capacity, rule, from_s)
        except InfeasibleProfileError:
            job.scheduled = None
            continue
        new.take_from(taken)
        if new != old:
            job.scheduled = new
            job.note(now, "planned", _promise(job, new, s.config.fit, now))


def _keep(s: Scheduler, job: Job, taken: StepFunction, now: float) -> None:
    """Keep the promise of a waiting job, as it is or put off, if that is possible beside `taken`.

    One whose start has come waits for processors on their way (a profile that is about to release
    them, a node that confirms that they are empty) and then starts later by as much.
    """
    promised, state = job.scheduled, s.state
    job.scheduled, job.behind_s = None, None
    if promised is None:
        return
    now_s = booked_s = promised.start_s
    if promised.start_s <= now:
        needed = promised.steps[0][1]
        if state.idle >= needed:
            now_s = booked_s = floor(now)
        elif state.idle + coming(state, now) >= needed:
            job.behind_s, booked_s = now, int(taken.origin_s)
        else:
            return
    booked = replace(promised, start_s=booked_s)
    booked.take_rest_from(taken)
    if taken.max(taken.origin_s, booked.end_s) <= state.processors.capacity:
        job.scheduled = replace(promised, start_s=now_s)
    else:
        booked.give_back(taken)


def coming(state: State, now: float) -> int:
    """Processors that will be idle soon: vacating, or due to be released by a profile."""
    due = sum(
        max(0, job.size - job.scheduled.nodes_at(now))
        for job in state.profiles.values()
        if job.id in state.active and job.scheduled is not None
    )
    return due + len(state.processors.vacating)


def _reserve(taken: StepFunction, job: Job, capacity: int, from_s: int) -> None:
    """The reservation of a job of another kind that stands ahead, in whole seconds."""
    size, planned_s = job.spec.initial.size, job.spec.planned_s
    duration_s = INF if planned_s is None else ceil(planned_s)
    start_s = taken.earliest_window(capacity - size, duration_s, from_s)
    if start_s < INF:
        taken.add(start_s, start_s + duration_s, size)


def _due(s: Scheduler, now: float) -> list[Start]:
    """Waiting jobs whose start has come."""
    starts, idle = [], s.state.idle
    for job in s.state.profiles.values():
        promised = job.scheduled
        if job.state is not JobState.QUEUED or promised is None or promised.start_s > now:
            continue
        size = promised.steps[0][1]
        if size <= idle:
            idle -= size
            reason = _promise(job, promised, s.config.fit, now)
            starts.append(Start(job, configuration_of(job, size), reason))
    return starts


def _promise(job: Job, promised: ScheduledProfile, fit: str, now: float) -> Reason:
    requested_s = sum(duration_s for duration_s, _ in job.spec.profile)
    return because(
        "profile_promised",
        size=promised.steps[0][1],
        peak=max(nodes for _, nodes in promised.steps),
        in_s=max(0.0, promised.start_s - now),
        run_s=float(promised.end_s - promised.start_s),
        requested_s=float(requested_s),
        fit=fit,
    )


def explain(s: Scheduler, job: Job, now: float) -> list[Reason]:
    """Why a job with a profile waits."""
    if job.scheduled is not None:
        return [_promise(job, job.scheduled, s.config.fit, now)]
    peak = max(nodes for _, nodes in job.spec.profile)
    return [because("profile_not_in_sight", peak=peak, idle=s.state.idle)]


# --- running ---------------------------------------------------------------------------------


def started(job: Job) -> None:
    """The job was started: its first step runs."""
    job.step, job.behind_s, job.short = 0, None, False


def _watch(s: Scheduler, job: Job, now: float, actions: list[Action]) -> None:
    """Notice that a moment has come: call the job, and note since when it holds too much."""
    plan = job.scheduled
    assert plan is not None, "a running profile is scheduled"
    job.step = plan.step_at(now)
    due = plan.nodes_at(now)
    if job.size <= due:
        job.behind_s = None
    elif job.behind_s is None:
        job.behind_s = now
        if not due:
            grace_s = s.config.profile_grace_s
            reason = because("profile_over", size=job.size, grace_s=grace_s)
            job.note(now, "warning", reason)
            actions.append(WarnJob(job.id, reason))
    more = due - job.size
    if due and more and more <= s.state.idle and job.resize is None and not job.called:
        job.called = True
        actions.append(CallRemap(job.id, job.instance))


def verdict(s: Scheduler, job: Job, now: float) -> Verdict:
    """What a job does at its remap point: what its scheduled profile says."""
    plan = job.scheduled
    assert plan is not None, "a running profile is scheduled"
    size, idle, step, last = job.size, s.state.idle, plan.step_at(now), len(plan.steps) - 1
    if step > last:
        grace_s = s.config.profile_grace_s
        return Verdict(None, because("profile_over", size=size, grace_s=grace_s))
    due = plan.steps[step][1]
    figures = {"size": size, "step": step + 1, "steps": last + 1}
    late_s = max(0.0, now - plan.begin_of(step))
    if due == size:
        if step == last:
            return Verdict(None, because("profile_last_step", **figures))
        next_ = {"next_size": plan.steps[step + 1][1], "in_s": plan.begin_of(step + 1) - now}
        return Verdict(None, because("profile_on_time", **figures, **next_))
    target = configuration_of(job, due)
    if due < size:
        reason = because("profile_shrink", next_size=due, late_s=late_s, **figures)
        return Verdict(target, reason)
    if due - size > idle:
        job.short = True
        more = due - size
        return Verdict(
            None, because("profile_short", next_size=due, more=more, idle=idle, **figures)
        )
    if job.settle and job.aborts:
        return Verdict(None, because("settling", left=job.settle))
    return Verdict(target, because("profile_expand", next_size=due, late_s=late_s, **figures))


def granted(job: Job, now: float) -> float:
    """A step's resize was granted; returns when the job ends now (see Deviations)."""
    plan = job.scheduled
    assert plan is not None, "a running profile is scheduled"
    step = plan.step_at(now)
    if job.short:
        job.scheduled = plan = plan.put_off(step, floor(now - plan.begin_of(step)))
        job.short = False
    return plan.end_s


def overstays(s: Scheduler, job: Job, now: float) -> Reason | None:
    """Why the job must be killed: it has not released what it had to, in time."""
    kill_s = _kill_s(s, job)
    if kill_s is None or kill_s > now or job.scheduled is None:
        return None
    due = job.scheduled.nodes_at(now)
    grace_s = s.config.profile_grace_s
    return because("profile_overstays", size=job.size, due=due, grace_s=grace_s)


def _kill_s(s: Scheduler, job: Job) -> float | None:
    if job.behind_s is None or s.state.paused:
        return None
    shrinks = job.resize is not None and not job.resize.expand
    since_s = max(job.behind_s, job.resize.granted_s) if job.resize and shrinks else job.behind_s
    return since_s + s.config.profile_grace_s


def deadlines(s: Scheduler) -> list[float]:
    """When the next start, change-point or kill is due."""
    due: list[float] = []
    if s.state.paused:
        return due
    for job in s.state.profiles.values():
        plan = job.scheduled
        if plan is None:
            continue
        if job.state is JobState.QUEUED:
            if job.behind_s is None:  # else the processors it waits for bring an event of their own
                due.append(plan.start_s)
            continue
        if job.step < len(plan.steps):
            due.append(plan.begin_of(job.step + 1))
        kill_s = _kill_s(s, job)
        if kill_s is not None:
            due.append(kill_s)
    return due
