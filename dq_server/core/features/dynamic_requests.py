"""Dynamic requests: running applications ask for processors and give them back.

Source: Prabhakaran et al. 2014, III-B, III-C. One request or release per job may be pending. A
request is granted, rejected, or waits until its time-out, with an estimate of when it could be
granted (the paper's future work). Granted processors are reserved for the job and join it at its
next remap point; a release is carried out there, too.

`starts` is lines 7 to 24 of Algorithm 2: plan the waiting jobs (planning/), then take the
requests in the order of asking, measure by how much each would delay the planned jobs, let the
grant policy decide, and charge the delays. Starting and backfilling (lines 25 and 26) follow in the
scheduling pass. Delays are measured for jobs that could start now and for the first
`reservation_delay_depth` that start later; a job is taken to run until its planned end. (The paper
plans StartLater = max(ReservationDepth, ReservationDelayDepth) jobs here; those past the delay
depth have no say, and the start policy plans afresh.) Jobs of the user who asks are planned, their
delays do not count.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dq_server.core.feature import Change, Feature, Rank, What, handles
from dq_server.core.model import events as ev
from dq_server.core.model.actions import AnswerRequest, Outcome, RequestAnswer
from dq_server.core.model.decisions import Start, Verdict
from dq_server.core.model.errors import InfeasibleRequest, InvalidTransition, InvariantViolation
from dq_server.core.model.jobs import Job, JobKind, JobState
from dq_server.core.model.placing import claim, find, room
from dq_server.core.model.quota_use import bound
from dq_server.core.model.reasons import Reason, because, declare
from dq_server.core.model.requests import (
    Asked,
    DfsConfig,
    DynamicRequest,
    Ledger,
    Release,
    WaitingRequests,
)
from dq_server.core.model.state import State
from dq_server.core.planning import INF, free
from dq_server.core.planning.backfill import Delays, end_of
from dq_server.core.turn import Turn

declare(
    dyn_too_few="{more} more processors asked for, {idle} are idle{where}",
    dyn_timeout="{more} more processors asked for, not to be had within {timeout_s:g} s: {why}",
    dyn_waits="{more} more processors asked for, {left_s:.0f} s left to wait: {why}",
    dyn_expand="the {more} processors that the application asked for, from {size} to {next_size}",
    dyn_release="the application gives back {count} of {size} processors",
    dyn_asks_itself="an evolving job is resized when it asks for it",
)


class Requests(Feature):
    @handles(ev.DynamicRequested)
    def requested(self, turn: Turn, event: ev.DynamicRequested) -> None:
        """`rs.request`: the application wants `more` processors."""
        job = _asking(turn.state, event.job, event.instance)
        if _repeated(turn, job, event.request):
            return
        _one_at_a_time(job)
        if event.more < 1 or not event.timeout_s >= 0:
            raise InfeasibleRequest(
                "ask for at least one processor, with a time-out of 0 s or more"
            )
        _check_size(turn.state, job, job.size + event.more)
        deadline_s = turn.now + event.timeout_s
        Asked.of(job).request = DynamicRequest(event.request, event.more, turn.now, deadline_s)
        WaitingRequests.of(turn.state).jobs[job.id] = job
        turn.schedule()

    @handles(ev.DynamicReleased)
    def released(self, turn: Turn, event: ev.DynamicReleased) -> None:
        """`rs.release`: the application gives processors back at its next remap point."""
        job = _asking(turn.state, event.job, event.instance)
        if _repeated(turn, job, event.request):
            return
        _one_at_a_time(job)
        named = event.processors
        if not set(named) <= set(job.allocation) or len(set(named)) != len(named):
            raise InfeasibleRequest(
                f"job {job.id} does not hold all of the processors {list(named)}"
            )
        count, size = len(named) or event.count, job.size
        if not 1 <= count < size:
            raise InfeasibleRequest(f"job {job.id} can give back from 1 to {size - 1}, not {count}")
        _check_size(turn.state, job, size - count)
        asked = Asked.of(job)
        asked.release = Release(count, named)
        reason = because("dyn_release", count=count, size=size)
        job.note(turn.now, "release", reason)
        asked.answer = RequestAnswer(event.request, Outcome.ACCEPTED, -count, None, reason)
        turn.actions.append(AnswerRequest(job.id, job.instance, asked.answer))

    def starts(self, turn: Turn) -> list[Start]:
        """Grant, reject or keep waiting every request, first come first served. Nobody starts."""
        waiting = WaitingRequests.of(turn.state).jobs
        if waiting:
            depth = turn.config.of(DfsConfig).reservation_delay_depth
            planned = Delays(turn.state, turn.config, turn.now, depth)
            for job in list(waiting.values()):
                request = Asked.of(job).request
                assert request is not None, "`Waiting` lists jobs whose request waits"
                if job.resize is None:  # else it gets its answer when that is done
                    refusal = _try(turn, planned, job, request)
                    if refusal is not None:
                        _refuse(turn, planned, job, request, refusal)
        return []

    def deadline(self, turn: Turn) -> Iterable[float]:
        """Time-outs of the requests that wait; a scheduling pass answers them, if one is made."""
        if turn.state.paused:
            return
        for job in WaitingRequests.of(turn.state).jobs.values():
            request = Asked.of(job).request
            if request is not None and request.deadline_s < INF and job.resize is None:
                yield request.deadline_s

    def changed(self, turn: Turn, change: Change) -> None:
        """Processors that drain with their nodes are not granted any more, if they were."""
        if change.what is not What.CAPACITY:
            return
        withheld = turn.state.processors.withheld
        if withheld:
            for job in turn.state.active.values():
                stands = job.resize is None and job.state is not JobState.KILLING
                if stands and not withheld.isdisjoint(job.reserved):
                    _exchange(turn, job)

    def verdict(self, turn: Turn, job: Job, rank: Rank) -> Verdict | None:
        """What was granted comes before all else; else the job goes on as it is."""
        if job.spec.kind is not JobKind.EVOLVING or job.spec.profile:
            return None
        return self._under_way(job) if rank is Rank.BEFORE_USER else self._as_it_is(job)

    def _under_way(self, job: Job) -> Verdict | None:
        """What was accepted or granted: it is reserved, and under way."""
        asked, size = Asked.of(job), job.size
        request, given = asked.request, asked.release
        if request is not None and request.granted:
            target = job.spec.configuration_of(size + len(job.reserved))
            figures = {"more": request.more, "size": size, "next_size": target.size}
            return Verdict(target, because("dyn_expand", **figures), processors=job.reserved)
        if given is not None:
            leaving = given.processors or tuple(job.allocation[size - given.count :])
            target = job.spec.configuration_of(size - len(leaving))
            reason = because("dyn_release", count=len(leaving), size=size)
            return Verdict(target, reason, processors=leaving)
        return None

    def _as_it_is(self, job: Job) -> Verdict:
        """An evolving job that has been granted nothing goes on as it is."""
        asked = Asked.of(job)
        if asked.request is not None and asked.answer is not None:
            return Verdict(None, asked.answer.reason)
        return Verdict(None, because("dyn_asks_itself"))

    def resize_granted(self, turn: Turn, job: Job) -> None:
        """What was asked for is now a pending resize; one that waits was not, and waits on."""
        if job.spec.kind is JobKind.EVOLVING and job.resize is not None:
            asked = Asked.of(job)
            if job.resize.expand:
                if asked.request is not None and asked.request.granted:
                    asked.request = None
            else:
                asked.release = None

    def started(self, turn: Turn, job: Job) -> None:
        """An application numbers its requests anew in each start."""
        if job.spec.kind is JobKind.EVOLVING:
            Asked.of(job).answer = None
        Ledger.of(turn.state).forget(job.id)

    def withdrawn(self, turn: Turn, job: Job) -> None:
        """The job is not served any more; what was granted stays reserved until it stops."""
        if job.spec.kind is JobKind.EVOLVING:
            WaitingRequests.of(turn.state).jobs.pop(job.id, None)

    def stopped(self, turn: Turn, job: Job, *, goes_on: bool) -> None:
        """Nothing that this start asked for holds any more; ranks that follow number anew."""
        if job.spec.kind is JobKind.EVOLVING:
            asked = Asked.of(job)
            asked.request = asked.release = None
            WaitingRequests.of(turn.state).jobs.pop(job.id, None)
        Ledger.of(turn.state).forget(job.id)
        if goes_on:
            self.started(turn, job)

    def check(self, state: State) -> None:
        waiting = WaitingRequests.of(state).jobs
        for job in state.jobs.values():
            asked = Asked.of(job).request
            waits = asked is not None and not asked.granted and job.state is not JobState.KILLING
            if waits != (job.id in waiting):
                raise InvariantViolation(f"job {job.id} asks for {asked}, `Waiting` disagrees")


def answer_of(job: Job) -> RequestAnswer | None:
    """The answer to the job's latest request or release."""
    return Asked.of(job).answer


# --- checks ----------------------------------------------------------------------------------


def _asking(state: State, job_id: int, instance: int) -> Job:
    """The job, if it may ask; InvalidTransition otherwise."""
    job = state.job(job_id)
    if not job.works_in(instance):
        raise InvalidTransition(f"job {job.id} is {job.state}: it cannot ask for anything now")
    if job.spec.kind is not JobKind.EVOLVING:
        raise InvalidTransition(
            f"job {job.id} is {job.spec.kind}: only an evolving job can ask (--kind evolving)"
        )
    if job.spec.profile:
        raise InvalidTransition(f"job {job.id} has a profile, which sets its sizes and their times")
    return job


def _repeated(turn: Turn, job: Job, request: int) -> bool:
    """Whether this number was answered before: then it is again, with what holds now."""
    known = Asked.of(job).answer
    if known is None or request > known.request:
        return False
    if request < known.request:
        raise InvalidTransition(f"job {job.id}: request {request} is older than the last")
    turn.actions.append(AnswerRequest(job.id, job.instance, known))
    return True


def _one_at_a_time(job: Job) -> None:
    """InvalidTransition while something the job asked for is pending or being carried out."""
    asked = Asked.of(job)
    if asked.request is not None:
        what = f"has asked for {asked.request.more} processors"
    elif asked.release is not None:
        what = f"is about to give back {asked.release.count} processors"
    elif job.resize is not None:
        what = f"is being resized to {job.resize.target.size} processors"
    else:
        return
    raise InvalidTransition(f"job {job.id} {what} already: one at a time")


def _check_size(state: State, job: Job, size: int) -> None:
    """InfeasibleRequest for a size that can never be.

    Several legal sizes are a range for an evolving job; a single one is only where it starts.
    """
    capacity, legal = state.processors.capacity, job.spec.configurations
    if max(job.size, capacity) < size:  # a job that leaves a node may have more than is up
        raise InfeasibleRequest(
            f"job {job.id} would have {size} processors, the cluster has {capacity}"
        )
    limited = bound(state, job, asked=True)
    if limited is not None and size > max(job.size, limited.ever):
        raise InfeasibleRequest(f"job {job.id} would have {size} processors: {limited.whose}")
    smallest, largest = legal[0].size, legal[-1].size
    if len(legal) > 1 and not smallest <= size <= largest:
        raise InfeasibleRequest(
            f"job {job.id} would have {size} processors, its sizes are {smallest} to {largest}"
        )
    if not job.spec.runs_on(size):
        raise InfeasibleRequest(
            f"job {job.id} would have {size} processors, a size that its program excludes"
        )


# --- serving ---------------------------------------------------------------------------------


def _try(turn: Turn, planned: Delays, job: Job, request: DynamicRequest) -> Reason | None:
    """Grant a request if it may be granted now; otherwise the reason why not."""
    state, policy, more, now = turn.state, turn.policies.grant, request.more, turn.now
    limited = _limited(state, job, more)
    if limited is not None:
        return limited
    dfs = turn.config.of(DfsConfig)
    processors = find(state, job, more, one_node=dfs.one_node)
    promised = room(state, job) >= more and free(state, now, end_of(job, now), job) < more
    if (processors is None or promised) and policy.may_change:
        where, needs = "", job.spec.needs
        if promised and state.idle >= more:
            where = f", promised to {state.features.promises(state)[-1].claimant}"
        elif state.idle >= more:
            where = f", not all on nodes with {needs.words}" if needs else ", not all on one node"
        return because("dyn_too_few", more=more, idle=state.idle, where=where)
    delays = planned.of_others(job, more) if policy.measures else []
    grant = policy.decide(state, job, more, delays, turn.config, now)
    if not grant.allowed or processors is None or promised:
        return grant.reason
    claim(state, job, processors)
    del WaitingRequests.of(state).jobs[job.id]
    job.reserved = processors
    Asked.of(job).request = DynamicRequest(
        request.request, more, request.asked_s, request.deadline_s, granted=True
    )
    state.plan(job, job.planned_end_s)
    Ledger.of(state).charge(delays, dfs, now)
    planned.granted()
    _answer(turn, job, request, Outcome.GRANTED, now, grant.reason)
    return None


def _limited(state: State, job: Job, more: int) -> Reason | None:
    """Why the job may not hold so many more, whatever is idle."""
    limited = bound(state, job, asked=True)
    over = limited is not None and len(job.holds()) + more > limited.most
    return limited.reason if limited is not None and over else None


def _available_s(turn: Turn, planned: Delays, job: Job, more: int) -> float | None:
    """When it could be granted; None: never, or nobody knows."""
    policy = turn.policies.grant
    if not policy.may_change or _limited(turn.state, job, more):
        return None
    return planned.available_s(job, more, measures=policy.measures)


def _exchange(turn: Turn, job: Job) -> None:
    """Other processors for those that were granted and now drain; else the request waits again."""
    state, asked = turn.state, Asked.of(job)
    request, pool = asked.request, turn.state.processors
    assert request is not None, "only a request that was granted"
    pool.give_back(job.reserved)  # no rank was started there yet
    job.reserved = ()
    found = find(state, job, request.more, one_node=turn.config.of(DfsConfig).one_node)
    if found is not None and free(state, turn.now, end_of(job, turn.now), job) >= request.more:
        claim(state, job, found)
        job.reserved = found
    else:
        asked.request = replace(request, granted=False)
        WaitingRequests.of(state).jobs[job.id] = job
    state.plan(job, job.planned_end_s)


def _refuse(
    turn: Turn, planned: Delays, job: Job, request: DynamicRequest, refusal: Reason
) -> None:
    """Reject a request, or let it wait if it has time left and waiting can help."""
    more, now, asked = request.more, turn.now, Asked.of(job)
    first = asked.answer is None or asked.answer.request != request.request
    if now < request.deadline_s and turn.policies.grant.may_change:
        left_s = request.deadline_s - now
        reason = because("dyn_waits", more=more, left_s=left_s, why=refusal.text)
        if first:
            available_s = _available_s(turn, planned, job, more)
            _answer(turn, job, request, Outcome.WAITING, available_s, reason)
        return
    available_s = _available_s(turn, planned, job, more)
    asked.request = None
    del WaitingRequests.of(turn.state).jobs[job.id]
    if not first:
        timeout_s = request.deadline_s - request.asked_s
        refusal = because("dyn_timeout", more=more, timeout_s=timeout_s, why=refusal.text)
    _answer(turn, job, request, Outcome.REJECTED, available_s, refusal)


def _answer(
    turn: Turn,
    job: Job,
    request: DynamicRequest,
    what: Outcome,
    available_s: float | None,
    reason: Reason,
) -> None:
    answer = RequestAnswer(request.request, what, request.more, available_s, reason)
    Asked.of(job).answer = answer
    job.note(turn.now, what, reason)
    turn.actions.append(AnswerRequest(job.id, job.instance, answer))
