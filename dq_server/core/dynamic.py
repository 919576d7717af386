"""Dynamic requests: running applications ask for processors and give them back.

Source: Prabhakaran et al. 2014, III-B, III-C. One request or release per job may be pending. A
request is granted, rejected, or waits until its time-out, with an estimate of when it could be
granted (the paper's future work). Granted processors are reserved for the job and join it at its
next remap point; a release is carried out there, too (resizing.py).

`serve` is lines 7 to 24 of Algorithm 2: plan the waiting jobs (planning.py), then take the requests
in the order of asking, measure by how much each would delay the planned jobs, let the grant policy
decide, and charge the delays. Starting and backfilling (lines 25 and 26) follow in the scheduling
pass. Delays are measured for jobs that could start now and for the first `reservation_delay_depth`
that start later; a job is taken to run until its planned end. (The paper plans StartLater =
max(ReservationDepth, ReservationDelayDepth) jobs here; those past the delay depth have no say, and
the start policy plans afresh.) Jobs of the user who asks are planned, their delays do not count.
"""

from __future__ import annotations

from math import nextafter
from typing import TYPE_CHECKING

from dq_server.core.actions import Action, AnswerRequest
from dq_server.core.errors import InfeasibleRequest, InvalidTransition
from dq_server.core.events import DynamicReleased, DynamicRequested
from dq_server.core.fairness import Delay
from dq_server.core.jobs import (
    DynamicRequest,
    Job,
    JobKind,
    JobState,
    Release,
    RequestAnswer,
)
from dq_server.core.planning import INF, StartPlan, free, plan_starts, running
from dq_server.core.policies.base import Verdict
from dq_server.core.reasons import Reason, because
from dq_server.core.sizes import Configuration, nearest_square
from dq_server.core.stepfunction import StepFunction

if TYPE_CHECKING:
    from dq_server.core.scheduler import Scheduler

ROUNDING_S = 1e-6  # a shorter delay comes from adding floating-point numbers


def requested(s: Scheduler, event: DynamicRequested, now: float, actions: list[Action]) -> None:
    """`rs.request`: the application wants `more` processors."""
    job = _asking(s, event.job, event.instance)
    if _repeated(job, event.request, actions):
        return
    _one_at_a_time(job)
    if event.more < 1 or not event.timeout_s >= 0:
        raise InfeasibleRequest("ask for at least one processor, with a time-out of 0 s or more")
    _check_size(s, job, job.size + event.more)
    job.dynamic = DynamicRequest(event.request, event.more, now, now + event.timeout_s)
    s.state.requests[job.id] = job
    s.schedule(now, actions)


def released(s: Scheduler, event: DynamicReleased, now: float, actions: list[Action]) -> None:
    """`rs.release`: the application gives processors back at its next remap point."""
    job = _asking(s, event.job, event.instance)
    if _repeated(job, event.request, actions):
        return
    _one_at_a_time(job)
    named = event.processors
    if not set(named) <= set(job.allocation) or len(set(named)) != len(named):
        raise InfeasibleRequest(f"job {job.id} does not hold all of the processors {list(named)}")
    count, size = len(named) or event.count, job.size
    if not 1 <= count < size:
        raise InfeasibleRequest(f"job {job.id} can give back from 1 to {size - 1}, not {count}")
    _check_size(s, job, size - count)
    job.release = Release(count, named)
    reason = because("dyn_release", count=count, size=size)
    job.note(now, "release", reason)
    job.request_answer = RequestAnswer(event.request, "accepted", -count, None, reason)
    actions.append(AnswerRequest(job.id, job.instance, job.request_answer))


def _asking(s: Scheduler, job_id: int, instance: int) -> Job:
    """The job, if it may ask; InvalidTransition otherwise."""
    job = s.state.job(job_id)
    if job.instance != instance or job.state not in (JobState.STARTING, JobState.RUNNING):
        raise InvalidTransition(f"job {job.id} is {job.state}: it cannot ask for anything now")
    if job.spec.kind is not JobKind.EVOLVING:
        raise InvalidTransition(
            f"job {job.id} is {job.spec.kind}: only an evolving job can ask (--kind evolving)"
        )
    if job.spec.profile:
        raise InvalidTransition(f"job {job.id} has a profile, which says what it gets and when")
    return job


def _repeated(job: Job, request: int, actions: list[Action]) -> bool:
    """Whether this number was answered before: then it is again, with what holds now."""
    known = job.request_answer
    if known is None or request > known.request:
        return False
    if request < known.request:
        raise InvalidTransition(f"job {job.id}: request {request} is older than the last")
    actions.append(AnswerRequest(job.id, job.instance, known))
    return True


def _one_at_a_time(job: Job) -> None:
    """InvalidTransition while something the job asked for is pending or being carried out."""
    if job.dynamic is not None:
        what = f"has asked for {job.dynamic.more} processors"
    elif job.release is not None:
        what = f"is about to give back {job.release.count} processors"
    elif job.resize is not None:
        what = f"is being resized to {job.resize.target.size} processors"
    else:
        return
    raise InvalidTransition(f"job {job.id} {what} already: one at a time")


def _check_size(s: Scheduler, job: Job, size: int) -> None:
    """InfeasibleRequest for a size that can never be.

    Several legal sizes are a range for an evolving job; a single one is only where it starts.
    """
    capacity, legal = s.state.processors.capacity, job.spec.configurations
    if size > capacity:
        raise InfeasibleRequest(
            f"job {job.id} would have {size} processors, the cluster has {capacity}"
        )
    smallest, largest = legal[0].size, legal[-1].size
    if len(legal) > 1 and not smallest <= size <= largest:
        raise InfeasibleRequest(
            f"job {job.id} would have {size} processors, its sizes are {smallest} to {largest}"
        )


# --- serving ---------------------------------------------------------------------------------


class _Outlook:
    """The plan of the waiting jobs; made when first asked for, kept while requests are served."""

    def __init__(self, s: Scheduler, now: float) -> None:
        self._s, self._now = s, now
        self._running: StepFunction | None = None
        self._plan: StartPlan | None = None

    def running(self) -> StepFunction:
        """Processors taken by running jobs, granted requests included."""
        if self._running is None:
            self._running = running(self._s.state, self._now)
        return self._running

    def plan(self) -> StartPlan:
        """How the waiting jobs start if nothing more is granted."""
        if self._plan is None:
            s = self._s
            self._plan = plan_starts(
                s.state,
                s.state.line(self._now),
                self._now,
                depth=s.config.dfs.reservation_delay_depth,
                drain_priority=s.config.drain_priority,
                moldable=s.config.moldable,
                taken=self.running().copy(),
            )
        return self._plan

    def delays(self, job: Job, more: int) -> list[Delay]:
        """By how much the planned jobs would be delayed if `job` had `more` until its end.

        Jobs of the same user are left out.
        """
        before, now, s = self.plan(), self._now, self._s
        with_more = self.running().copy()
        with_more.add(now, _end(job, now), more)
        after = plan_starts(
            s.state,
            [planned.job for planned in before.jobs],
            now,
            depth=INF,
            drain_priority=s.config.drain_priority,
            moldable=s.config.moldable,
            taken=with_more,
        )
        late = {planned.job.id: planned.start_s for planned in after.jobs}
        counts_now = s.config.dfs.count_start_now
        return [
            Delay(planned.job.id, planned.job.spec, _delay(planned.start_s, late[planned.job.id]))
            for planned in before.jobs
            if counts_now or planned.start_s > now
            if not planned.job.spec.user or planned.job.spec.user != job.spec.user
        ]

    def granted(self) -> None:
        """A request was granted: what was planned no longer holds."""
        self._running = self._plan = None

    def available_s(self, job: Job, more: int) -> float | None:
        """When `more` can be had until the job's end, delaying no planned job; None: never."""
        policy, capacity = self._s.grant, self._s.state.processors.capacity
        if not policy.may_change:
            return None
        taken = self.plan().taken if policy.measures else self.running()
        end_s = _end(job, self._now)
        from_s = taken.last_excess_end(capacity - more, self._now, end_s)
        return None if from_s >= end_s else max(from_s, self._now)


def _end(job: Job, now: float) -> float:
    """When the running job's processors are expected back, later than now."""
    assert job.planned is not None, "a running job is planned"
    return max(job.planned[0], nextafter(now, INF))


def _delay(before_s: float, after_s: float) -> float:
    delay_s = after_s - before_s if before_s < INF else 0.0
    return delay_s if delay_s > ROUNDING_S else 0.0


def serve(s: Scheduler, now: float, actions: list[Action]) -> None:
    """Grant, reject or keep waiting every dynamic request, first come first served."""
    outlook = _Outlook(s, now)
    for job in list(s.state.requests.values()):
        request = job.dynamic
        assert request is not None, "`requests` lists jobs whose request waits"
        refusal = _try(s, outlook, job, request, now, actions)
        if refusal is not None:
            _refuse(s, outlook, job, request, refusal, now, actions)


def _try(
    s: Scheduler,
    outlook: _Outlook,
    job: Job,
    request: DynamicRequest,
    now: float,
    actions: list[Action],
) -> Reason | None:
    """Grant a request if it may be granted now; otherwise the reason why not."""
    state, more = s.state, request.more
    processors = state.processors.find(more, one_node=s.config.dfs.one_node)
    promised = state.idle >= more and free(state, now, _end(job, now), job) < more
    if (processors is None or promised) and s.grant.may_change:
        whom = "a reservation" if state.booked else "jobs with a profile"
        where = f", promised to {whom}" if promised else ", not all on one node"
        where = where if state.idle >= more else ""
        return because("dyn_too_few", more=more, idle=state.idle, where=where)
    delays = outlook.delays(job, more) if s.grant.measures else []
    grant = s.grant.decide(state, job, more, delays, s.config, now)
    if not grant.allowed or processors is None or promised:
        return grant.reason
    state.processors.claim(processors)
    state.changes += 1
    del state.requests[job.id]
    request.processors = processors
    assert job.planned is not None, "a running job is planned"
    state.plan(job, job.planned[0])
    state.ledger.charge(delays, s.config.dfs, now)
    outlook.granted()
    _answer(job, "granted", now, grant.reason, now, actions)
    return None


def _refuse(
    s: Scheduler,
    outlook: _Outlook,
    job: Job,
    request: DynamicRequest,
    refusal: Reason,
    now: float,
    actions: list[Action],
) -> None:
    """Reject a request, or let it wait if it has time left and waiting can help."""
    more, first = (
        request.more,
        job.request_answer is None or (job.request_answer.request != request.request),
    )
    if now < request.deadline_s and s.grant.may_change:
        left_s = request.deadline_s - now
        reason = because("dyn_waits", more=more, left_s=left_s, why=refusal.text)
        if first:
            _answer(job, "waiting", outlook.available_s(job, more), reason, now, actions)
        return
    available_s = outlook.available_s(job, more)
    job.dynamic = None
    del s.state.requests[job.id]
    if not first:
        timeout_s = request.deadline_s - request.asked_s
        refusal = because("dyn_timeout", more=more, timeout_s=timeout_s, why=refusal.text)
    _answer(job, "rejected", available_s, refusal, now, actions, request)


def _answer(
    job: Job,
    what: str,
    available_s: float | None,
    reason: Reason,
    now: float,
    actions: list[Action],
    request: DynamicRequest | None = None,
) -> None:
    about = request or job.dynamic
    assert about is not None, "there is a request to answer"
    job.request_answer = RequestAnswer(about.request, what, about.more, available_s, reason)
    job.note(now, what, reason)
    actions.append(AnswerRequest(job.id, job.instance, job.request_answer))


# --- at the remap point ----------------------------------------------------------------------


def verdict(job: Job) -> Verdict:
    """What an evolving job does at its remap point: what it asked for, else nothing."""
    size, asked, given = job.size, job.dynamic, job.release
    if asked is not None and asked.processors:
        target = configuration_of(job, size + len(asked.processors))
        figures = {"more": asked.more, "size": size, "next_size": target.size}
        return Verdict(target, because("dyn_expand", **figures), processors=asked.processors)
    if given is not None:
        leaving = given.processors or tuple(job.allocation[size - given.count :])
        target = configuration_of(job, size - len(leaving))
        reason = because("dyn_release", count=len(leaving), size=size)
        return Verdict(target, reason, processors=leaving)
    if asked is not None and job.request_answer is not None:
        return Verdict(None, job.request_answer.reason)
    return Verdict(None, because("dyn_asks_itself"))


def carried_out(job: Job, *, expand: bool) -> None:
    """The remap point was answered: what was asked for is now a pending resize."""
    if expand:
        job.dynamic = None
    else:
        job.release = None


def configuration_of(job: Job, size: int) -> Configuration:
    """The listed configuration of this size, or the grid nearest to a square."""
    listed = (c for c in job.spec.configurations if c.size == size)
    return next(listed, None) or nearest_square(size)
