"""Jobs whose evolution is known when they are submitted: the server carries their profiles out.

Source: Klein & Pérez 2011 (model/profile.py), here online and beside jobs of every other kind. The
option `fit` says how a profile may be delayed and expanded. What was scheduled is a promise:

waiting   Such a job gets its scheduled profile in queue order, beside what running jobs are planned
          to hold, all profiles promised before, and the reservations of the jobs ahead of it. At
          every pass it is placed again while all others keep their place, so that it never ends
          later than promised, unless the promise cannot be kept (somebody overstays, a node is
          lost): then it is made again.
running   At its first remap point after each change-point the job is resized to what its scheduled
          profile says. The processors of an expansion are kept for it: whoever plans, starts or
          expands sees the profiles as taken (planning/).

Deviations, where the papers are silent. Change-points are moments, not amounts of work: a remap
point that comes late uses up the job's own time. If it is the cluster that is late (the processors
of an expansion are not there because somebody overstays), the current step gets longer and all
later steps move by as much. A job that still holds what it had to release `grace_s` after
the moment, the end of the profile included, is killed: others were promised these processors.

All moments are whole seconds, as in the papers, so that sums of times stay exact.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import ceil, floor
from typing import Any

from dq_server.core.feature import Change, Feature, Rank, What
from dq_server.core.model.actions import WarnJob
from dq_server.core.model.decisions import Start, Verdict
from dq_server.core.model.errors import ConfigError, InvariantViolation
from dq_server.core.model.jobs import ACTIVE, Job, JobState
from dq_server.core.model.options import Options
from dq_server.core.model.pool import prospect
from dq_server.core.model.profile import (
    EvolutionProfile,
    InfeasibleProfileError,
    ScheduledProfile,
    fit_rule,
    place,
)
from dq_server.core.model.reasons import Reason, because, declare
from dq_server.core.model.records import Record
from dq_server.core.model.state import Place, PlaceOf, Promises, State
from dq_server.core.model.stepfunction import StepFunction
from dq_server.core.planning import INF, running
from dq_server.core.turn import Turn

declare(
    profile_promised="its profile starts on {size} of up to {peak} processors in {in_s:.0f} s"
    " and takes {run_s:.0f} s ({requested_s:.0f} s asked for, fit {fit})",
    profile_not_in_sight="its profile needs up to {peak} processors: {idle} are idle, and it is"
    " not known when others end",
    profile_on_time="step {step} of {steps} of its profile: {size} processors, {next_size} in"
    " {in_s:.0f} s",
    profile_last_step="step {step} of {steps}, the last of its profile: {size} processors",
    profile_expand="step {step} of {steps} of its profile: from {size} to {next_size},"
    " {late_s:.1f} s after the moment",
    profile_shrink="step {step} of {steps} of its profile: from {size} to {next_size},"
    " {late_s:.1f} s after the moment",
    profile_short="step {step} of {steps} of its profile needs {next_size}: {more} more, {idle}"
    " are idle; other jobs overrun their planned ends, so all later steps are put off",
    profile_over="its profile is over, but the job still holds {size} processors and is killed"
    " after {grace_s:g} s",
    profile_overstays="the job holds {size} processors, its profile gives it {due}, and the"
    " {grace_s:g} s of grace are over",
)


@dataclass(frozen=True, slots=True)
class ProfileOptions(Options):
    """How profiles known in advance are carried out.

    fit      how a profile is placed: rigid noX 2X 2X+c infX infX+c
    grace_s  time after which a job that holds more than its profile is killed
    """

    table = "profiles"
    short = {"fit": "fit", "profile_grace_s": "grace_s"}  # noqa: RUF012 - ClassVar of the base

    fit: str = "2X+c"
    grace_s: float = 60.0

    def validate(self) -> None:
        if not self.grace_s >= 0:
            raise ConfigError(f"profile_grace_s = {self.grace_s}: 0 s or more")
        fit_rule(self.fit)


@dataclass(slots=True)
class ProfilePromise(Record, key="Promise"):
    """Of a job with a profile: what was promised to it, and where it is."""

    scheduled: ScheduledProfile | None = None
    step: int = 0  # of `scheduled`: the last one whose beginning was noticed
    behind_s: float | None = None  # since then it holds more than scheduled, or starts late
    short: bool = False  # the processors of its step were not there when it came for them


@dataclass(slots=True)
class Profiled(Record, key="Profiled"):
    """Of the state: jobs with a profile that wait, start or run, in order of submission."""

    jobs: OrderedDict[int, Job] = field(default_factory=OrderedDict)


class Profiles(Feature, Promises):
    claimant = "jobs with a profile"

    def queued(self, turn: Turn, job: Job) -> None:
        if job.spec.profile:
            Profiled.of(turn.state).jobs[job.id] = job

    def withdrawn(self, turn: Turn, job: Job) -> None:
        """A job that leaves the queue has no promise; one that has ended keeps it for reports."""
        if job.spec.profile:
            Profiled.of(turn.state).jobs.pop(job.id, None)
            if job.state in (JobState.HELD, JobState.WAITING):
                ProfilePromise.of(job).scheduled = None

    def stopped(self, turn: Turn, job: Job, *, goes_on: bool) -> None:
        """One that is tried again is promised another start once it waits."""
        if not goes_on and job.spec.profile and job.state is JobState.RESTARTING:
            Profiled.of(turn.state).jobs.pop(job.id, None)
            ProfilePromise.of(job).scheduled = ProfilePromise.of(job).behind_s = None

    def starts(self, turn: Turn) -> list[Start]:
        """Who starts now. Calls those whose moment has come."""
        profiled = Profiled.of(turn.state).jobs
        if not profiled:
            return []
        jobs = list(profiled.values())
        for job in jobs:
            if job.state in ACTIVE:
                _watch(turn, job)
        waiting = [job for job in jobs if job.state is JobState.QUEUED]
        if turn.config.start == "none":
            for job in waiting:
                ProfilePromise.of(job).scheduled = None
            return []
        if not waiting:
            return []
        _place_waiting(turn)
        return _due(turn)

    def started(self, turn: Turn, job: Job) -> None:
        """The first step runs."""
        if job.spec.profile:
            promise = ProfilePromise.of(job)
            promise.step, promise.behind_s, promise.short = 0, None, False
            self.resize_committed(turn, job)

    def resize_committed(self, turn: Turn, job: Job) -> None:
        """Whatever its size, the job ends when its scheduled profile does."""
        if job.spec.profile:
            turn.state.plan(job, _scheduled(job).end_s)

    def resize_granted(self, turn: Turn, job: Job) -> None:
        """A step that came late because of others puts off all later ones (see Deviations)."""
        if not job.spec.profile:
            return
        plan, promise = _scheduled(job), ProfilePromise.of(job)
        step = plan.step_at(turn.now)
        if promise.short:
            promise.scheduled = plan.put_off(step, floor(turn.now - plan.begin_of(step)))
            promise.short = False
        turn.state.plan(job, _scheduled(job).end_s)

    def tick(self, turn: Turn) -> None:
        """Kill the jobs that have not released what they had to, in time."""
        for job in list(Profiled.of(turn.state).jobs.values()):
            why = _overstays(turn, job)
            if why is not None:
                turn.kill(job, why)

    def deadline(self, turn: Turn) -> Iterable[float]:
        """When the next start, change-point or kill is due."""
        if turn.state.paused:
            return
        for job in Profiled.of(turn.state).jobs.values():
            promise = ProfilePromise.of(job)
            plan = promise.scheduled
            if plan is None:
                continue
            if job.state is JobState.QUEUED:
                # One that is behind waits for processors that bring an event of their own.
                if promise.behind_s is None:
                    yield plan.start_s
                continue
            if promise.step < len(plan.steps):
                yield plan.begin_of(promise.step + 1)
            kill_s = _kill_s(turn, job)
            if kill_s is not None:
                yield kill_s

    def changed(self, turn: Turn, change: Change) -> None:
        """Grants were paused: nobody could release anything in the meantime."""
        if change.what is not What.PAUSED:
            return
        for job in Profiled.of(turn.state).jobs.values():
            ProfilePromise.of(job).behind_s = None

    def verdict(self, turn: Turn, job: Job, rank: Rank) -> Verdict | None:
        """What a job does at its remap point: what its scheduled profile says."""
        return _verdict(turn, job) if job.spec.profile and rank is Rank.AFTER_USER else None

    # --- what others may have -------------------------------------------------------------------

    def line(self, state: State) -> PlaceOf | None:
        """Nobody makes room for a job whose profile was promised its start."""
        return _place_of if Profiled.of(state).jobs else None

    def promises(self, state: State) -> Promises | None:
        return self if Profiled.of(state).jobs else None

    def claims(self, state: State, taken: StepFunction, now: float, *, to_promise: bool) -> None:
        """What was promised; to promise something new, those that wait have nothing yet."""
        for job in Profiled.of(state).jobs.values():
            scheduled = ProfilePromise.of(job).scheduled
            if scheduled is not None and (not to_promise or job.id in state.active):
                scheduled.take_from(taken)

    def beyond(
        self, state: State, job: Job, end_s: float, held: int, now: float, *, to_promise: bool
    ) -> tuple[float, int]:
        """What the job holds beyond its profile, and when it should have released that."""
        if job.id not in Profiled.of(state).jobs:
            return end_s, held
        if to_promise:  # what is due to be released is free
            return end_s, 0
        promise = ProfilePromise.of(job)
        given = promise.scheduled.nodes_at(now) if promise.scheduled is not None else 0
        return (now if promise.behind_s is None else promise.behind_s), max(0, held - given)

    # --- to be seen -----------------------------------------------------------------------------

    def explain(self, turn: Turn, job: Job) -> list[Reason]:
        """Why a job with a profile waits."""
        if not job.spec.profile or job.state is not JobState.QUEUED:
            return []
        scheduled = ProfilePromise.of(job).scheduled
        if scheduled is not None:
            return [_promise(turn, job, scheduled)]
        peak = max(nodes for _, nodes in job.spec.profile)
        return [because("profile_not_in_sight", peak=peak, idle=turn.state.idle)]

    def view(self, state: State, job: Job) -> Mapping[str, Any]:
        """`scheduled`: what was promised; `step`: where it is, from 0."""
        profile = [list(step) for step in job.spec.profile] or None
        promise = ProfilePromise.of(job)
        plan = promise.scheduled
        if plan is None:
            return {"profile": profile, "scheduled": None}
        steps = [list(step) for step in plan.steps]
        runs = job.start_s is not None and job.end_s is None
        step = promise.step if runs else None
        return {
            "profile": profile,
            "scheduled": {"start_s": plan.start_s, "steps": steps, "step": step},
        }

    def check(self, state: State) -> None:
        profiled = Profiled.of(state).jobs
        for job in state.jobs.values():
            lives = job.state in (JobState.QUEUED, JobState.STARTING, JobState.RUNNING)
            if (lives and bool(job.spec.profile)) != (job.id in profiled):
                raise InvariantViolation(f"job {job.id} is {job.state}, `Profiled` disagrees")


def _place_of(job: Job) -> Place:
    promised = bool(job.spec.profile) and ProfilePromise.of(job).scheduled is not None
    return Place.PROMISED if promised else Place.IN_ORDER


def _scheduled(job: Job) -> ScheduledProfile:
    plan = ProfilePromise.of(job).scheduled
    assert plan is not None, "a running profile is scheduled"
    return plan


# --- waiting ---------------------------------------------------------------------------------


def _place_waiting(turn: Turn) -> None:
    """Make and renew the promises of the waiting jobs, see the module's docstring."""
    state, now, capacity = turn.state, turn.now, prospect(turn.state)
    rule = fit_rule(turn.config.of(ProfileOptions).fit)
    line = list(state.line(now))
    while line and not line[-1].spec.profile:  # who stands behind all profiles moves none
        line.pop()
    from_s = ceil(now)
    taken = running(state, now, to_promise=True).on_whole_seconds(from_s)
    for job in line:
        if job.spec.profile:
            _keep(turn, job, taken)
    for job in line:
        if not job.spec.profile:
            _reserve(taken, job, capacity, from_s)
            continue
        promise = ProfilePromise.of(job)
        old = promise.scheduled
        if old is not None:
            if old.start_s <= now:  # it waits for processors on their way, and keeps its place
                continue
            old.give_back(taken)
        try:
            new = place(EvolutionProfile(job.spec.profile), taken, capacity, rule, from_s)
        except InfeasibleProfileError:
            promise.scheduled = None
            continue
        new.take_from(taken)
        if new != old:
            promise.scheduled = new
            job.note(now, "planned", _promise(turn, job, new))


def _keep(turn: Turn, job: Job, taken: StepFunction) -> None:
    """Keep the promise of a waiting job, as it is or put off, if that is possible beside `taken`.

    One whose start has come waits for processors on their way (a profile that is about to release
    them, a node that confirms that they are empty) and then starts later by as much.
    """
    state, now, promise = turn.state, turn.now, ProfilePromise.of(job)
    promised = promise.scheduled
    promise.scheduled = promise.behind_s = None
    if promised is None:
        return
    now_s = booked_s = promised.start_s
    if promised.start_s <= now:
        needed = promised.steps[0][1]
        if state.idle >= needed:
            now_s = booked_s = floor(now)
        elif state.idle + _coming(turn) >= needed:
            promise.behind_s, booked_s = now, int(taken.origin_s)
        else:
            return
    booked = replace(promised, start_s=booked_s)
    booked.take_from(taken)
    if taken.max(taken.origin_s, booked.end_s) <= prospect(state):
        promise.scheduled = replace(promised, start_s=now_s)
    else:
        booked.give_back(taken)


def _coming(turn: Turn) -> int:
    """Processors that will be idle soon: vacating, or due to be released by a profile."""
    state = turn.state
    due = sum(
        max(0, job.size - _scheduled(job).nodes_at(turn.now))
        for job in Profiled.of(state).jobs.values()
        if job.id in state.active
    )
    return due + state.processors.coming


def _reserve(taken: StepFunction, job: Job, capacity: int, from_s: int) -> None:
    """The reservation of a job of another kind that stands ahead, in whole seconds."""
    size, planned_s = job.spec.initial.size, job.spec.planned_s
    duration_s = INF if planned_s is None else ceil(planned_s)
    start_s = taken.earliest_window(capacity - size, duration_s, from_s)
    if start_s < INF:
        taken.add(start_s, start_s + duration_s, size)


def _due(turn: Turn) -> list[Start]:
    """Waiting jobs whose start has come."""
    starts, idle = [], turn.state.idle
    for job in Profiled.of(turn.state).jobs.values():
        promised = ProfilePromise.of(job).scheduled
        if job.state is not JobState.QUEUED or promised is None or promised.start_s > turn.now:
            continue
        size = promised.steps[0][1]
        if size <= idle:
            idle -= size
            reason = _promise(turn, job, promised)
            starts.append(Start(job, job.spec.configuration_of(size), reason))
    return starts


def _promise(turn: Turn, job: Job, promised: ScheduledProfile) -> Reason:
    requested_s = sum(duration_s for duration_s, _ in job.spec.profile)
    return because(
        "profile_promised",
        size=promised.steps[0][1],
        peak=max(nodes for _, nodes in promised.steps),
        in_s=max(0.0, promised.start_s - turn.now),
        run_s=float(promised.end_s - promised.start_s),
        requested_s=float(requested_s),
        fit=turn.config.of(ProfileOptions).fit,
    )


# --- running ---------------------------------------------------------------------------------


def _watch(turn: Turn, job: Job) -> None:
    """Notice that a moment has come: call the job, and note since when it holds too much."""
    plan, promise, now = _scheduled(job), ProfilePromise.of(job), turn.now
    promise.step = plan.step_at(now)
    due = plan.nodes_at(now)
    if job.size <= due:
        promise.behind_s = None
    elif promise.behind_s is None:
        promise.behind_s = now
        if not due:
            grace_s = turn.config.of(ProfileOptions).grace_s
            reason = because("profile_over", size=job.size, grace_s=grace_s)
            job.note(now, "warning", reason)
            turn.actions.append(WarnJob(job.id, reason))
    more = due - job.size
    if due and more and more <= turn.state.idle and job.resize is None and not job.called:
        turn.call(job)


def _verdict(turn: Turn, job: Job) -> Verdict:
    """What a job does at its remap point: what its scheduled profile says."""
    plan, now = _scheduled(job), turn.now
    size, idle, step, last = job.size, turn.state.idle, plan.step_at(now), len(plan.steps) - 1
    if step > last:
        grace_s = turn.config.of(ProfileOptions).grace_s
        return Verdict(None, because("profile_over", size=size, grace_s=grace_s))
    due = plan.steps[step][1]
    figures = {"size": size, "step": step + 1, "steps": last + 1}
    late_s = max(0.0, now - plan.begin_of(step))
    if due == size:
        if step == last:
            return Verdict(None, because("profile_last_step", **figures))
        next_ = {"next_size": plan.steps[step + 1][1], "in_s": plan.begin_of(step + 1) - now}
        return Verdict(None, because("profile_on_time", **figures, **next_))
    target = job.spec.configuration_of(due)
    if due < size:
        reason = because("profile_shrink", next_size=due, late_s=late_s, **figures)
        return Verdict(target, reason)
    if due - size > idle:
        ProfilePromise.of(job).short = True
        more = due - size
        return Verdict(
            None, because("profile_short", next_size=due, more=more, idle=idle, **figures)
        )
    if job.settle and job.aborts:
        return Verdict(None, because("settling", left=job.settle))
    return Verdict(target, because("profile_expand", next_size=due, late_s=late_s, **figures))


def _overstays(turn: Turn, job: Job) -> Reason | None:
    """Why the job must be killed: it has not released what it had to, in time."""
    kill_s, scheduled = _kill_s(turn, job), ProfilePromise.of(job).scheduled
    if kill_s is None or kill_s > turn.now or scheduled is None:
        return None
    due = scheduled.nodes_at(turn.now)
    grace_s = turn.config.of(ProfileOptions).grace_s
    return because("profile_overstays", size=job.size, due=due, grace_s=grace_s)


def _kill_s(turn: Turn, job: Job) -> float | None:
    behind_s = ProfilePromise.of(job).behind_s
    if behind_s is None or turn.state.paused or job.state not in ACTIVE:
        return None  # one that waits holds nothing: it is behind because others are
    if job.resize is not None and not job.resize.expand:  # it is about to release them
        behind_s = max(behind_s, job.resize.granted_s)
    return behind_s + turn.config.of(ProfileOptions).grace_s
