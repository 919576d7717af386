"""Ranks that a job spawns (MPI_Comm_spawn), and processors for those that its program wants.

If the ranks are those of a granted expansion (Launching.SPAWN), all that is kept here is what they
run: an order that gets lost is given again. Otherwise the program is told at once: it gets idle
processors, or a refusal with the reason. Granted are only processors that nobody was promised and
that no planned start of a waiting job needs (planning/), and only to jobs whose size the
scheduler does not change meanwhile. Processors of ranks that the job has spawned before, and that
are about to be given back, count, too: the answer waits for them, OWN_END_WITHIN_S at most. The job
holds what it was granted beside its allocation (`Job.spawned`) until the spawned world has ended,
or the job has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dq_server.core.feature import Feature, handles
from dq_server.core.model import events as ev
from dq_server.core.model.actions import AnswerSpawn
from dq_server.core.model.errors import InfeasibleRequest, InvalidTransition, InvariantViolation
from dq_server.core.model.jobs import Job, JobKind
from dq_server.core.model.launching import Launching, Worlds
from dq_server.core.model.places import note_nodes
from dq_server.core.model.placing import take
from dq_server.core.model.quota_use import bound
from dq_server.core.model.reasons import Reason, because, declare
from dq_server.core.model.records import Record
from dq_server.core.model.requests import Asked
from dq_server.core.model.state import State
from dq_server.core.planning import free
from dq_server.core.planning.backfill import first_delayed
from dq_server.core.turn import Turn

OWN_END_WITHIN_S = 10.0  # ranks of a world that a program has told to end are gone by then
ANSWERS_KEPT = 1000  # for repeats, which come within seconds

declare(
    spawn_granted="{count} processors for ranks that the program spawns, {idle} were idle",
    spawn_expansion="the {count} ranks of the expansion that was granted",
    spawn_ended="the ranks on {count} processors that the program had spawned have ended",
    spawn_too_few="{count} processors asked for, {idle} idle{where}",
    spawn_delays="{count} processors asked for, {idle} idle, but job {job} would start"
    " {delay_s:.0f} s later",
    spawn_malleable="a malleable job is resized by the scheduler: use the resize library",
    spawn_profile="a job with a profile gets only the processors of its profile",
    spawn_resizing="the job has asked for another size, or is being resized: spawn when that is"
    " done",
)


@dataclass(frozen=True, slots=True)
class Spawned:
    """What the ranks of a world run; see SpawnRequested."""

    granted_s: float
    processors: tuple[int, ...]
    programs: tuple[tuple[str, ...], ...]
    program_of: tuple[int, ...]
    cwd: str
    keys: dict[str, str]


@dataclass(slots=True)
class Spawns(Record, key="Spawns"):
    """Of a job, in its latest start."""

    # What was answered, oldest first; by agent and its ticket.
    answers: dict[str, AnswerSpawn] = field(default_factory=dict)
    # Worlds that have not ended, and the one of the pending expansion.
    worlds: dict[int, Spawned] = field(default_factory=dict)
    # Since when a request waits for processors that the job is about to give back; by ticket.
    waits: dict[str, float] = field(default_factory=dict)


class Spawning(Feature):
    @handles(ev.SpawnRequested)
    def requested(self, turn: Turn, event: ev.SpawnRequested) -> None:
        """A rank wants to spawn others; the same ticket again gets the same answer.

        No answer means that the request is to be made again, as it is while ranks of the job end.
        """
        job = turn.state.job(event.job)
        if not job.works_in(event.instance):
            raise InvalidTransition(f"job {job.id} is {job.state}: it cannot spawn ranks now")
        if not event.program_of or max(event.program_of) >= len(event.programs):
            raise InfeasibleRequest("at least one rank is spawned, and each runs a program")
        spawns, ticket = Spawns.of(job), f"{event.agent}:{event.ticket}"
        known = spawns.answers.get(ticket)
        if known is None:
            since_s = spawns.waits.setdefault(ticket, turn.now)
            if turn.now - since_s < OWN_END_WITHIN_S and _may_wait(turn.state, job, event):
                return
            known = _expanding(turn, job, event) if event.world else _wanted(turn, job, event)
            del spawns.waits[ticket]
            spawns.answers[ticket] = known
            if len(spawns.answers) > ANSWERS_KEPT:
                del spawns.answers[next(iter(spawns.answers))]
        turn.actions.append(known)

    @handles(ev.WorldEnded)
    def ended_world(self, turn: Turn, event: ev.WorldEnded) -> None:
        """All ranks of a spawned world have ended: its processors are the job's no more."""
        job, state = turn.state.job(event.job), turn.state
        gone = spawned_in(job, event.world)
        if job.instance != event.instance or not gone:
            return
        del Spawns.of(job).worlds[event.world]
        turn.charge(job)  # before it holds less
        job.spawned = tuple(p for p in job.spawned if p not in gone)
        Worlds.of(job).end(gone, event.world)
        state.plan(job, job.planned_end_s)
        turn.let_go(job, list(gone))
        job.note(turn.now, "spawned", because("spawn_ended", count=len(gone)))
        turn.schedule()

    def stopped(self, turn: Turn, job: Job, *, goes_on: bool) -> None:
        """Agents number the tickets of each start anew."""
        if job.launching.by_agents:
            spawns = Spawns.of(job)
            spawns.answers.clear()
            spawns.waits.clear()
            spawns.worlds.clear()

    def resize_committed(self, turn: Turn, job: Job) -> None:
        """The ranks of an expansion have joined: nobody has to start them any more."""
        if job.launching is Launching.SPAWN:
            _forget_resizes(job)

    def view(self, state: State, job: Job) -> Mapping[str, Any]:
        return {"spawned": list(job.spawned)}

    def check(self, state: State) -> None:
        for job in state.active.values():
            if not job.launching.by_agents:
                continue
            worlds, holds = Worlds.of(job), set(job.holds())
            if not set(job.spawned) <= worlds.started.keys() <= holds:
                raise InvariantViolation(f"job {job.id} holds {holds}, its worlds are {worlds}")
            known = Spawns.of(job).worlds
            if any(worlds.started[p] not in known for p in job.spawned):
                raise InvariantViolation(
                    f"job {job.id} has spawned a world without a record: {worlds}"
                )
            pool = state.processors
            gone = {p for p in worlds.ending if pool.vacating.get(p) == job.id or p in pool.down}
            if gone != worlds.ending.keys():
                raise InvariantViolation(
                    f"job {job.id} does not vacate the processors that end in {worlds}"
                )


def spawned_in(job: Job, world: int) -> tuple[int, ...]:
    """The processors of a world that the job's program has spawned; none if it has ended."""
    of = Worlds.of(job).started
    return tuple(p for p in job.spawned if of[p] == world)


def world_to_start(job: Job, world: int) -> Spawned | None:
    """What has been spawned as this world; None if it has not, or need not be started any more."""
    if not spawned_in(job, world) and (job.resize is None or job.resize.resize_id != world):
        return None
    return Spawns.of(job).worlds.get(world)


def _forget_resizes(job: Job) -> None:
    """Keep what the program has spawned; at most one expansion is pending, a new one."""
    worlds, of = Spawns.of(job).worlds, Worlds.of(job).started
    own = {of[p] for p in job.spawned}
    for world in worlds.keys() - own:
        del worlds[world]


def _may_wait(state: State, job: Job, event: ev.SpawnRequested) -> bool:
    """Whether what is missing is the job's own still, of ranks that it has spawned before."""
    count, idle = len(event.program_of), state.idle
    vacating = sum(owner == job.id for owner in state.processors.vacating.values())
    kind = job.spec.kind is not JobKind.MALLEABLE
    return not event.world and kind and idle < count <= idle + len(job.spawned) + vacating


def _expanding(turn: Turn, job: Job, event: ev.SpawnRequested) -> AnswerSpawn:
    """The ranks of a granted expansion."""
    pending, count = job.resize, len(event.program_of)
    if pending is None or not pending.expand or pending.resize_id != event.world:
        raise InvalidTransition(f"job {job.id} is not being expanded by {event.world}")
    if job.launching is not Launching.SPAWN:
        raise InvalidTransition(f"the agents start the new ranks of job {job.id}, no rank does")
    if len(pending.processors) != count:
        granted = len(pending.processors)
        raise InvalidTransition(f"{count} ranks are spawned on {granted} processors")
    _forget_resizes(job)
    reason = because("spawn_expansion", count=count)
    return _granted(turn, job, event, event.world, pending.processors, reason)


def _granted(
    turn: Turn,
    job: Job,
    event: ev.SpawnRequested,
    world: int,
    processors: tuple[int, ...],
    reason: Reason,
) -> AnswerSpawn:
    words = event.programs, event.program_of, event.cwd, dict(event.keys)
    Spawns.of(job).worlds[world] = Spawned(turn.now, processors, *words)
    return AnswerSpawn(job.id, job.instance, event.agent, event.ticket, world, processors, reason)


def _wanted(turn: Turn, job: Job, event: ev.SpawnRequested) -> AnswerSpawn:
    """Those that the program wants by itself."""
    state, count = turn.state, len(event.program_of)
    idle = free(state, turn.now, job.planned_end_s, job)
    refusal = _refusal(turn, job, count, idle)
    if refusal is not None:
        job.note(turn.now, "spawn", refusal)
        return AnswerSpawn(job.id, job.instance, event.agent, event.ticket, 0, (), refusal)
    reason = because("spawn_granted", count=count, idle=idle)
    job.note(turn.now, "spawn", reason)
    world, processors = state.next_resize, take(state, job, count)
    state.next_resize += 1
    turn.charge(job)  # before it holds more
    note_nodes(state, job, processors)
    job.spawned = (*job.spawned, *processors)
    Worlds.of(job).begin(processors, world)
    state.plan(job, job.planned_end_s)
    return _granted(turn, job, event, world, processors, reason)


def _refusal(turn: Turn, job: Job, count: int, idle: int) -> Reason | None:
    """Why the job gets nothing; None: it may have them."""
    state, spec = turn.state, job.spec
    if state.paused:
        return because("paused", why=state.paused)
    if spec.kind is JobKind.MALLEABLE:
        return because("spawn_malleable")
    if spec.profile:
        return because("spawn_profile")
    asked = Asked.of(job)
    changes = asked.request is not None or asked.release is not None
    if changes or job.resize is not None or job.reserved:
        return because("spawn_resizing")
    limited = bound(state, job, asked=True)
    if limited is not None and len(job.holds()) + count > limited.most:
        return limited.reason
    if count > idle:
        promised = ", the others are promised" if state.idle > idle else ""
        return because("spawn_too_few", count=count, idle=idle, where=promised)
    found = first_delayed(turn.state, turn.config, turn.now, count, job.planned_end_s)
    if found is None:
        return None
    figures = {"count": count, "idle": idle, "job": found[0].id, "delay_s": found[1]}
    return because("spawn_delays", **figures)
