"""The transaction of a resize: prepare, then commit or abort. What several features do with it.

prepare   the processors of an expansion are reserved, those of a shrink are named
commit    the job has its new size: processors are booked, or released
abort     the job keeps its old size: reserved processors return, nothing leaked

Ranks that have met many others leave first: MPICH 5 keeps 93 KiB of every rank that a rank was ever
connected to (docs/ranks.md) and gives it back when the rank ends. A shrink gives back the
processors that came last, so the first ranks of a job that is resized for weeks would grow all the
time. Where more than `most` ranks have joined since a rank did, it leaves in place of one of the
last ones: any rank may, the first too.

Resizes by restart. Where MPI cannot take ranks into a running job, all of its ranks copy what is
declared and end, and others start on the new size and read the copy. From when the copy is complete
until the new ranks have their data it *guards* the job: whatever happens meanwhile, the job starts
again from it.

Interruptions. A job whose node was lost waits to start again. The agent may only have been away:
its ranks went on, and ended well meanwhile. What an agent says of their ends counts until the next
start.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from dq_server.core.feature import Feature
from dq_server.core.model.actions import JobRestarts, StartJob
from dq_server.core.model.errors import ConfigError
from dq_server.core.model.jobs import Job, JobState, PendingResize, Remap, Stay
from dq_server.core.model.launching import Launching, Worlds
from dq_server.core.model.options import Options
from dq_server.core.model.placing import take
from dq_server.core.model.reasons import Figure, Reason, because, declare
from dq_server.core.model.records import Record
from dq_server.core.model.sizes import Configuration
from dq_server.core.model.state import State
from dq_server.core.turn import INF, Turn

# After a resize that failed a job expands again only this many remap points later, twice as many
# each time: what fails once usually fails again.
RETRY_FIRST = 4
RETRY_DOUBLINGS = 8

declare(
    drain_withdrawn="{nodes} drains, and is part of the expansion",
    resize_committed="{size} to {next_size} done, {redistribution_s:.3g} s of redistribution",
    resize_aborted="{size} to {next_size} did not happen: {why}",
    regrid_committed="{grid} to {next_grid} done, {redistribution_s:.3g} s of redistribution",
    regrid_aborted="{grid} to {next_grid} did not happen: {why}",
    long_met="the ranks on processors {leaving} leave, not the last ones: {met} others have joined"
    " since that on {oldest} started, more than {most}, and MPI keeps memory of each",
    succession="from {size} to {next_size}: its ranks have ended, others start from the copy",
    succession_undone="on {size} processors again, with its data, in try {tries}",
    succession_done="from {size} to {next_size}: the new ranks have the data, {cost_s:.3g} s after"
    " the resize was granted",
)


@dataclass(frozen=True, slots=True)
class MeetingOptions(Options):
    """most  ranks that joined a job while one of its ranks ran; at 93 KiB each some 93 MB"""

    table = "meetings"

    most: int = 1000

    def validate(self) -> None:
        if self.most < 1:
            raise ConfigError(f"[scheduler.meetings] most = {self.most}: at least 1 rank")


def prepare(
    turn: Turn, job: Job, seq: int, target: Configuration, processors: tuple[int, ...]
) -> PendingResize:
    """Grant a resize. `processors`: reserved for the job already, or those that shall leave."""
    state = turn.state
    expand = target.size > job.size
    if expand and not processors:
        processors = take(state, job, target.size - job.size)
    elif not processors:
        processors = _leaving(turn, job, job.size - target.size)
    if expand:
        job.reserved = processors
    job.resize = PendingResize(state.next_resize, seq, target, processors, expand, turn.now)
    state.next_resize += 1
    state.plan(job, job.planned_end_s)
    for feature in turn.features[Feature.resize_granted]:
        feature.resize_granted(turn, job)
    return job.resize


def _leaving(turn: Turn, job: Job, count: int) -> tuple[int, ...]:
    """The processors that a shrink gives back; the order of the others is kept."""
    if count == 0:  # another grid
        return ()
    return _rotated(turn, job, count) or tuple(job.allocation[job.size - count :])


def _rotated(turn: Turn, job: Job, count: int) -> tuple[int, ...] | None:
    """Which processors a shrink by `count` gives back, in the job's order; None: the last."""
    if job.launching is not Launching.JOIN:  # rank 0 stays elsewhere, or all of them go
        return None
    most, worlds = turn.config.of(MeetingOptions).most, Worlds.of(job)
    by_met = sorted(job.allocation, key=worlds.met, reverse=True)
    old = {p for p in by_met[:count] if worlds.met(p) > most}
    others = [p for p in job.allocation if p not in old]
    chosen = old.union(others[len(others) - (count - len(old)) :])
    leaving = tuple(p for p in job.allocation if p in chosen)
    if leaving == tuple(job.allocation[-count:]):
        return None
    said = because(
        "long_met",
        leaving=", ".join(map(str, leaving)),
        oldest=by_met[0],
        met=worlds.met(by_met[0]),
        most=most,
    )
    job.note(turn.now, "ranks", said)
    return leaving


def withdrawn(state: State, job: Job) -> Reason | None:
    """Why the granted expansion, whose ranks are starting, is not to happen; None: it is."""
    pool, pending = state.processors, job.resize
    if not pool.withheld or pending is None or not pending.expand:
        return None
    there = [p for p in pending.processors if p in pool.withheld]
    return because("drain_withdrawn", nodes=nodes_named(state, there)) if there else None


def nodes_named(state: State, processors: Iterable[int]) -> str:
    """Their nodes, as a subject in the singular."""
    node_of = state.processors.node_of
    names = dict.fromkeys(node_of[p] for p in processors)
    return "each of nodes " + ", ".join(names) if len(names) > 1 else "node " + "".join(names)


def commit(turn: Turn, job: Job, pending: PendingResize, redistribution_s: float) -> None:
    before, state = job.configuration, turn.state
    assert before is not None
    end_s = _new_end(job, before, pending, turn.now)
    turn.charge(job)  # before its size changes: usage is size times time
    _settled(job, pending)
    job.aborts = 0
    job.resizes += 1
    job.configuration = pending.target
    if pending.expand:
        job.allocation.extend(pending.processors)
        if job.launching.by_agents:
            Worlds.of(job).begin(pending.processors, pending.resize_id)
    elif pending.processors:
        job.allocation = state.processors.without(job.allocation, pending.processors)
        if job.launching.by_agents:
            Worlds.of(job).leave(pending.processors)
    state.plan(job, end_s)
    for feature in turn.features[Feature.resize_committed]:
        feature.resize_committed(turn, job)
    if pending.processors and not pending.expand:
        turn.let_go(job, list(pending.processors))
        if state.queue:
            # It gave way: it must not take back at once what the next job leaves idle.
            job.settle = turn.config.settle
    job.performance.moved(before, pending.target, redistribution_s)
    job.stay(Stay(pending.target, turn.now, redistribution_time_s=redistribution_s))
    code, figures = _from_to("committed", before, pending.target)
    reason = because(code, redistribution_s=redistribution_s, **figures)
    job.note(turn.now, "committed", reason)
    state.touch(job)
    turn.schedule()


def _settled(job: Job, pending: PendingResize) -> None:
    """Nothing is pending. What was granted to a job that shrank first stays reserved for it."""
    job.resize = None
    if pending.expand:
        job.reserved = ()


def _new_end(job: Job, before: Configuration, pending: PendingResize, now: float) -> float:
    """The planned end after a resize: what was left when it was granted, at the new speed.

    The speed comes from the job's scalability if that is known, else from its measurements; without
    either the old end stands.
    """
    end_s = job.planned_end_s
    if end_s <= pending.granted_s or end_s == INF:
        return end_s
    target, known = pending.target, job.spec.scalability
    if known is not None:
        ratio = known.ratio(target.size) / known.ratio(before.size)
    else:
        measured = job.performance.known
        if target not in measured or not measured.get(before):  # journals of 0.2 may have 0 s
            return end_s
        ratio = measured[target] / measured[before]
    return now + (end_s - pending.granted_s) * ratio


def back_off(job: Job, failures: int) -> None:
    """So many resizes in a row have failed: the next expansion comes later."""
    job.aborts = failures
    doublings = min(failures - 1, RETRY_DOUBLINGS)
    job.settle = max(job.settle, RETRY_FIRST * 2**doublings)


def abort(turn: Turn, job: Job, pending: PendingResize, why: str) -> None:
    assert job.configuration is not None
    _settled(job, pending)
    if pending.target.size == job.size:
        # Another grid moves data only: if that failed once it is not worth another try.
        job.performance.bar(pending.target)
    else:
        back_off(job, job.aborts + 1)
    turn.state.plan(job, job.planned_end_s)
    if pending.expand:
        if job.launching.by_agents:  # its ranks may have been started
            Worlds.of(job).end(pending.processors, pending.resize_id)
        turn.let_go(job, list(pending.processors))
    if job.stays:
        job.stays[-1].decision = Remap.CONTINUE
    code, figures = _from_to("aborted", job.configuration, pending.target)
    job.note(turn.now, "aborted", because(code, why=why, **figures))
    turn.schedule()


# --- resizes by restart (features/protection.py) ------------------------------------------------


def succeed(job: Job, pending: PendingResize, turn: Turn) -> None:
    """A resize by restart: commit it and start the job on its new processors."""
    if job.state is JobState.STARTING:  # the end was faster than the start signal
        job.move(JobState.RUNNING)
    before, over, found = job.configuration, job.instance, Succession.of(job)
    assert before is not None, "it has run"
    commit(turn, job, pending, turn.now - pending.granted_s)  # so far
    found.ready, found.inherits, found.tries = 0, pending.resize_id, 0
    found.former, found.granted_s = before, pending.granted_s
    for feature in turn.features[Feature.stopped]:
        feature.stopped(turn, job, goes_on=True)
    Worlds.of(job).clear()
    job.move(JobState.STARTING)
    job.instance = max(job.instance + 1, turn.state.next_instance)
    job.first_processor = job.allocation[0]
    job.next_start()
    reason = because("succession", size=before.size, next_size=pending.target.size)
    job.note(turn.now, "start", reason)
    turn.actions.append(JobRestarts(job.id, over, reason))
    turn.actions.append(
        StartJob(job.id, job.instance, tuple(job.allocation), pending.target, reason)
    )


def carried_out(turn: Turn, job: Job, resize_id: int) -> None:
    """The new ranks of a resize by restart have their data."""
    found = Succession.of(job)
    if not found.inherits or found.inherits != resize_id:
        return
    former, current = found.former, job.configuration
    if found.tries:
        reason = because("succession_undone", size=job.size, tries=found.tries)
        job.note(turn.now, "restarted", reason)
    elif former is not None and current is not None:
        cost_s = found.cost_s = turn.now - found.granted_s
        job.performance.redistribution[f"{former}>{current}"] = cost_s
        job.stays[-1].redistribution_time_s = cost_s
        figures = {"size": former.size, "next_size": current.size}
        reason = because("succession_done", cost_s=cost_s, **figures)
        job.note(turn.now, "restarted", reason)
    end_guard(job)


def _from_to(
    end: str, before: Configuration, after: Configuration
) -> tuple[str, dict[str, Figure]]:
    """Code and figures of the reason that tells how a resize ended."""
    if before.size == after.size:
        return f"regrid_{end}", {"grid": str(before), "next_grid": str(after)}
    return f"resize_{end}", {"size": before.size, "next_size": after.size}


TRIES = 3  # starts from one copy that may fail


@dataclass(slots=True)
class Succession(Record, key="Succession"):
    """Of a job that is resized by restart."""

    # The pending resize for which the copy is complete, and the ranks are about to end. Says
    # nothing any more once another resize is pending, or none.
    ready: int = 0
    inherits: int = 0  # the resize whose copy the present start, or the next one, begins from
    former: Configuration | None = None  # where the copy was made, while `ready` or `inherits`
    granted_s: float = 0.0  # when that resize was granted
    tries: int = 0  # starts from that copy that have failed
    cost_s: float = 0.0  # what the latest one took, from the grant until the data were there


def is_ready(job: Job) -> bool:
    """Whether its ranks are about to end for the pending resize."""
    ready = Succession.of(job).ready
    return ready > 0 and job.resize is not None and job.resize.resize_id == ready


def is_guarded(job: Job) -> bool:
    """Whether the job can start again from the copy of a resize under way."""
    return Succession.of(job).inherits > 0 or is_ready(job)


def keep_guard(job: Job) -> None:
    """This start is over, the next one begins from the copy, where it was made."""
    found = Succession.of(job)
    if is_ready(job):
        found.inherits, found.former = found.ready, job.configuration
    found.ready = 0
    found.tries += 1


def end_guard(job: Job) -> None:
    """The present ranks have their data."""
    found = Succession.of(job)
    found.ready = found.inherits = found.tries = 0
    found.former, found.granted_s = None, 0.0


# --- interruptions -----------------------------------------------------------------------------

WAITING = (JobState.QUEUED, JobState.WAITING, JobState.HELD)


@dataclass(slots=True)
class Interruption(Record, key="Interruption"):
    """Of a job, from the interruption until it starts again.

    instance  the start that was given up; 0: none was
    nodes     where its ranks were
    whole     an exit code of 0 means that nothing of its work is missing
    """

    instance: int = 0
    nodes: list[str] = field(default_factory=list)
    whole: bool = True


def is_whole(job: Job) -> bool:
    """Whether the present start has said that its work is done, or never said anything."""
    return job.answer is None or job.work_done


def unheard(job: Job, instance: int) -> Interruption | None:
    """The interruption of this start of the job, if its good end would still be believed."""
    found = Interruption.of(job)
    if not instance or found.instance != instance:
        return None
    if job.state is JobState.RESTARTING:
        return found if is_whole(job) else None
    return found if job.state in WAITING and found.whole else None
