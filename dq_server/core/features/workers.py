"""Jobs of workers take processors that nobody else wants, and leave when somebody does.

A worker is a process without MPI, alone on its processor, in a world of its own (`Worlds`).
No remap point is waited for: at each scheduling pass the scheduler decides for all worker jobs.

*Before the queue is served* (`starts`) they give back what others want: jobs in the queue in their
order, orders and requests that wait for processors, the next size that a malleable job is still to
try, and what was promised to somebody within their grace (worker_demand.py). Wanted is only what
there can be: a job that could not start even if all workers left makes none of them leave.
Workers on a node that drains leave, too.

*After the queue was served* (`PASSED`) they get the idle processors that are left over, beyond what
is still wanted. Jobs with a higher priority come first, then those that were submitted earlier.

A worker that is to leave gets a signal, and is killed after its grace. Its processors are vacating
meanwhile, which the whole core knows: nobody waits for a worker job longer than its grace. Plans
count on what workers hold as on what is about to come back (`beyond`); only a job's least size is
its own. A job whose least size is 0 starts at once, with no worker, and stands in nobody's way.

A worker that ends by itself and well has found no more work: no other is started, and the job is
done when all have ended so. A worker that leaves or is lost may leave work behind, so after that
others are started again. One that fails ends the job, as a rank does.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import nextafter

from dq_server.core.feature import Change, Feature, What, handles
from dq_server.core.model import events as ev
from dq_server.core.model.actions import ResizeWorkers
from dq_server.core.model.decisions import Start
from dq_server.core.model.errors import InvariantViolation
from dq_server.core.model.jobs import AT_WORK, Job, JobState, Remap, Stay
from dq_server.core.model.launching import Worlds
from dq_server.core.model.places import note_nodes
from dq_server.core.model.placing import growth, room, take
from dq_server.core.model.pool import prospect
from dq_server.core.model.reasons import Reason, because, declare
from dq_server.core.model.state import Derived, Place, PlaceOf, Promises, State
from dq_server.core.model.stepfunction import StepFunction
from dq_server.core.model.workers import NONE, NoMoreWork, WorkerJobs
from dq_server.core.planning import running
from dq_server.core.turn import INF, Turn
from dq_server.core.worker_demand import (
    for_needs,
    grace_s,
    in_order,
    next_step,
    overdue,
    soon,
    surplus,
    unclaimed,
    wanted,
)

declare(
    workers_open="it has no worker at first and takes processors that no other job wants",
    workers_grow="{taken} of {idle} idle processors that no other job wants: from {size} to"
    " {next_size} workers",
    workers_give="{wanted} processors are wanted by {who}, {idle} are idle or on their way: from"
    " {size} to {next_size} workers",
    workers_drain="{nodes} drains: from {size} to {next_size} workers",
    workers_lost="node {node} was lost: from {size} to {next_size} workers",
    workers_order="asked for by the user: from {size} to {next_size} workers",
    workers_ended="a worker ended by itself: from {size} to {next_size}, no other is started",
    workers_wait="{size} workers of {most} at most: {idle} processors are idle, {wanted} of them"
    " are wanted by {who}",
    workers_rest="{size} workers of {most} at most: {idle} processors are idle",
    workers_done="all workers have ended by themselves",
)


class OpenStarts(Derived):
    """Queued jobs that start with no worker, hence at once."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: set[int] = set()

    def everyone(self, state: State) -> Iterable[int]:
        return state.queue

    def update(self, state: State, job_id: int, job: Job | None) -> None:
        queued = state.queue.get(job_id)
        if queued is not None and _starts_empty(queued):
            self.ids.add(job_id)
        else:
            self.ids.discard(job_id)

    def said(self) -> object:
        return self.ids


class WorkerJobsFeature(Feature, Promises):
    claimant = "the least size of a worker job"

    # --- a job's life ---------------------------------------------------------------------------

    def line(self, state: State) -> PlaceOf | None:
        """One that starts with no worker is behind nobody, and nobody is behind it."""
        return _place_of if OpenStarts.of(state).ids else None

    def starts(self, turn: Turn) -> list[Start]:
        """Begin jobs that start with no worker; give back what others want."""
        state = turn.state
        for job_id in sorted(OpenStarts.of(state).ids):
            turn.start(Start(state.queue[job_id], NONE, because("workers_open")))
        if WorkerJobs.of(state).ids and not turn.decided:
            self._leave_draining(turn)
            self._give_way(turn)
        return []

    def started(self, turn: Turn, job: Job) -> None:
        """Each of its workers is a world; nobody has to report the start of none."""
        if job.spec.workers is None:
            return
        WorkerJobs.of(turn.state).ids.append(job.id)
        job.work_done = True  # a worker says no word of farewell
        NoMoreWork.of(job).told = False
        _begin_worlds(turn, job, job.allocation)
        if not job.allocation:
            job.move(JobState.RUNNING)

    def stopped(self, turn: Turn, job: Job, *, goes_on: bool) -> None:
        """It has no worker any more."""
        if job.spec.workers is not None and job.id in WorkerJobs.of(turn.state).ids:
            WorkerJobs.of(turn.state).ids.remove(job.id)

    @handles(ev.WorkerEnded)
    def worker_ended(self, turn: Turn, event: ev.WorkerEnded) -> None:
        """A worker has ended by itself and well."""
        job = turn.state.job(event.job)
        if not job.works_in(event.instance) or job.spec.workers is None:
            return
        started = Worlds.of(job).started
        gone = tuple(p for p in job.allocation if started.get(p) == event.world)
        if not gone:
            return  # it was told to leave before
        _shrink(turn, job, gone, "workers_ended")
        NoMoreWork.of(job).told = True
        if not job.allocation:
            turn.finish(job, JobState.DONE, because("workers_done"))
        turn.schedule()

    # --- more and fewer workers -----------------------------------------------------------------

    def changed(self, turn: Turn, change: Change) -> None:
        """After a pass they take what is left over; workers on a node that is lost are lost."""
        if change.what is What.PASSED:
            self._take_what_is_left(turn)
        elif change.what is What.LOSING:
            self._lose(turn, change.node)

    def _take_what_is_left(self, turn: Turn) -> None:
        """What nobody wants is theirs, job by job."""
        state = turn.state
        if not WorkerJobs.of(state).ids or turn.decided:
            return
        for job in in_order(state):
            count = job.size - _most(job)
            if count > 0:  # the user has asked for fewer workers than there are
                _shrink(turn, job, tuple(job.allocation[-count:]), "workers_order")
        spare = state.idle - wanted(turn, state.idle + state.incoming())[0]
        for job in in_order(state):
            spare = min(spare, unclaimed(turn, job))
            most = _most(job) + sum(p in state.processors.withheld for p in job.allocation)
            count = min(spare, most - job.size, room(state, job))
            count = growth(state, job, count) if count > 0 else 0
            if count > 0 and not NoMoreWork.of(job).told:
                reason = because(
                    "workers_grow",
                    taken=count,
                    idle=state.idle,
                    size=job.size,
                    next_size=job.size + count,
                )
                _grow(turn, job, count, reason)
                spare -= count

    def measured(self, turn: Turn, job: Job) -> None:
        """A malleable job may want its next size from now on."""
        state = turn.state
        if WorkerJobs.of(state).ids and next_step(state, job) > state.idle + state.incoming():
            turn.schedule()

    def _leave_draining(self, turn: Turn) -> None:
        """Off the nodes that drain, as far as the least size allows."""
        pool = turn.state.processors
        for job in in_order(turn.state) if pool.withheld else ():
            there = [p for p in job.allocation if p in pool.withheld]
            there = there[: job.size - job.spec.configurations[0].size]
            if there:
                nodes = ", ".join(dict.fromkeys(pool.node_of[p] for p in there))
                _shrink(turn, job, tuple(there), "workers_drain", nodes=nodes)

    def _give_way(self, turn: Turn) -> None:
        """Give back what others want and cannot have without; the last in order first."""
        state = turn.state
        givers = [(job, most) for job in reversed(in_order(state)) if (most := surplus(job))]
        if not givers:
            return
        free = state.idle + state.incoming()
        count, who = wanted(turn, free + sum(most for _, most in givers))
        named = for_needs(turn, givers)
        missing = max(count - free, overdue(turn), 0)
        for job, most in givers:
            there = [p for p in reversed(job.allocation) if p in named]
            others = [p for p in reversed(job.allocation) if p not in named]
            leaving = (*there, *others)[: min(most, max(missing, len(there)))]
            if leaving:
                figures = {"wanted": count, "who": who, "idle": free}
                _shrink(turn, job, tuple(leaving), "workers_give", **figures)
                missing -= len(leaving)
                named -= set(leaving)

    def _lose(self, turn: Turn, node: str) -> None:
        """The workers on a node that is lost are lost; the others go on."""
        pool = turn.state.processors
        for job in in_order(turn.state):
            there = tuple(p for p in job.allocation if pool.node_of[p] == node)
            if there and len(there) <= job.size - job.spec.configurations[0].size:
                _shrink(turn, job, there, "workers_lost", node=node)

    # --- plans ----------------------------------------------------------------------------------

    def promises(self, state: State) -> Promises | None:
        """While workers hold processors, plans must know which of them come back at once."""
        return self if any(state.active[k].allocation for k in WorkerJobs.of(state).ids) else None

    def claims(self, state: State, taken: StepFunction, now: float, *, to_promise: bool) -> None:
        """The least size of each job, for as long as the job is expected to last."""
        for job in in_order(state):
            end_s, held = job.planned_end_s, min(job.size, job.spec.configurations[0].size)
            if held:
                taken.add(now, max(end_s, nextafter(now, INF)), held)

    def beyond(
        self, state: State, job: Job, end_s: float, held: int, now: float, *, to_promise: bool
    ) -> tuple[float, int]:
        """All that is more than the least size comes back as soon as somebody wants it."""
        if job.spec.workers is None or job.state not in AT_WORK:
            return end_s, held
        return nextafter(now, INF), max(0, held - job.spec.configurations[0].size)

    def deadline(self, turn: Turn) -> Iterable[float]:
        """When workers have to leave for what was promised to somebody."""
        state, now = turn.state, turn.now
        held = sum(surplus(job) for job in in_order(state))
        if not held or all(p is self for p in state.features.promises(state)):
            return
        taken = running(state, now)
        due_s = taken.first_excess_start(prospect(state) - held, soon(now), INF)
        if due_s < INF:
            yield max(now, due_s - max(grace_s(job) for job in in_order(state)))

    # --- to be seen -----------------------------------------------------------------------------

    def explain(self, turn: Turn, job: Job) -> list[Reason]:
        """Why it has no more workers."""
        state = turn.state
        if job.spec.workers is None or job.state not in AT_WORK or job.size >= _most(job):
            return []
        figures = {"size": job.size, "most": _most(job), "idle": state.idle}
        count, who = wanted(turn, state.idle + state.incoming())
        if count:
            return [because("workers_wait", wanted=count, who=who, **figures)]
        return [because("workers_rest", **figures)]

    def check(self, state: State) -> None:
        active = [j.id for j in state.active.values() if j.spec.workers is not None]
        if sorted(active) != sorted(WorkerJobs.of(state).ids):
            raise InvariantViolation(f"worker jobs {active} are active, the record disagrees")
        for job in (state.active[k] for k in active):
            worlds = Worlds.of(job).started
            if job.launching.by_agents and set(job.allocation) != worlds.keys():
                raise InvariantViolation(f"worker job {job.id} has {job.allocation}, not {worlds}")
            if len(set(worlds.values())) != len(worlds):
                raise InvariantViolation(f"two workers of job {job.id} are one world: {worlds}")


def _starts_empty(job: Job) -> bool:
    return job.spec.workers is not None and job.preferred.size == 0


def _place_of(job: Job) -> Place:
    return Place.ASIDE if _starts_empty(job) else Place.IN_ORDER


def _most(job: Job) -> int:
    """How many workers the job may have: its largest size, or what its user has ordered."""
    ordered = job.held or job.wanted
    return job.spec.configurations[-1].size if ordered is None else ordered.size


# --- what is done ----------------------------------------------------------------------------


def _grow(turn: Turn, job: Job, count: int, reason: Reason) -> None:
    processors = take(turn.state, job, count)
    turn.charge(job)  # before it holds more
    job.allocation.extend(processors)
    if job.first_processor < 0:
        job.first_processor = processors[0]
    note_nodes(turn.state, job, processors)
    _begin_worlds(turn, job, processors)
    _resized(turn, job, Remap.EXPAND, processors, reason)


def _begin_worlds(turn: Turn, job: Job, processors: Iterable[int]) -> None:
    for p in processors if job.launching.by_agents else ():
        Worlds.of(job).begin((p,), turn.state.next_resize)
        turn.state.next_resize += 1


def _shrink(turn: Turn, job: Job, leaving: tuple[int, ...], code: str, **figures: object) -> None:
    """End these workers; `code` and `figures`: why, without the sizes."""
    sizes = {"size": job.size, "next_size": job.size - len(leaving)}
    reason = because(code, **figures, **sizes)  # type: ignore[arg-type]
    turn.charge(job)  # before it holds less
    NoMoreWork.of(job).told = False  # what the leaving ones have not finished is for others
    job.allocation = turn.state.processors.without(job.allocation, leaving)
    if job.launching.by_agents:
        worlds = Worlds.of(job)
        for p in leaving:
            worlds.end((p,), worlds.started[p])
    _resized(turn, job, Remap.SHRINK, leaving, reason)
    turn.let_go(job, list(leaving))
    turn.schedule()


def _resized(
    turn: Turn, job: Job, what: Remap, processors: tuple[int, ...], reason: Reason
) -> None:
    """The job's size has changed: plans, its story and its stays go on from there."""
    state, size = turn.state, len(job.allocation)
    job.configuration = job.spec.configuration_of(size) if size else NONE
    job.resizes += 1
    if not job.allocation and job.state is JobState.STARTING:
        job.move(JobState.RUNNING)  # nobody will report a start
    state.plan(job, job.planned_end_s)
    if job.stays:
        job.stays[-1].decision, job.stays[-1].reason = what, reason
    for feature in turn.features[Feature.resize_committed]:
        feature.resize_committed(turn, job)
    job.stay(Stay(job.configuration, turn.now))
    job.note(turn.now, what, reason)
    turn.actions.append(ResizeWorkers(job.id, job.instance, what, size, processors, reason))
