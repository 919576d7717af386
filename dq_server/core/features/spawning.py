"""Processors for ranks that a job's own program spawns (MPI_Comm_spawn).

The program is told at once: it gets idle processors, or a refusal with the reason. Granted are only
processors that nobody was promised and that no planned start of a waiting job needs (planning.py),
and only to jobs whose size the scheduler does not change meanwhile. The job holds them beside its
allocation (`Job.spawned`) until the spawned world has ended, or the job has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import nextafter
from typing import Any

from dq_server.core.feature import Feature, handles
from dq_server.core.model import events as ev
from dq_server.core.model.actions import AnswerSpawn
from dq_server.core.model.errors import InfeasibleRequest, InvalidTransition, InvariantViolation
from dq_server.core.model.jobs import Job, JobKind, JobState
from dq_server.core.model.reasons import Reason, because, declare
from dq_server.core.model.records import Record
from dq_server.core.model.state import State
from dq_server.core.model.worlds import Worlds
from dq_server.core.planning import INF, free, plan_starts, running
from dq_server.core.turn import Turn

ROUNDING_S = 1e-6  # a shorter delay comes from adding floating-point numbers
ANSWERS_KEPT = 1000  # for repeats, which come within seconds

declare(
    spawn_granted="{count} processors for ranks that the program spawns, {idle} were idle",
    spawn_ended="the ranks on {count} processors that the program had spawned have ended",
    spawn_too_few="{count} processors asked for, {idle} idle{where}",
    spawn_delays="{count} processors asked for, {idle} idle, but job {job} would start"
    " {delay_s:.0f} s later",
    spawn_malleable="a malleable job is resized by the scheduler: use the resize library",
    spawn_profile="a job with a profile has said what it needs and when: it gets no more",
    spawn_resizing="the job has asked for another size, or is being resized: spawn when that is"
    " done",
)


@dataclass(slots=True)
class Spawns(Record):
    """Of a job: what its latest start was answered, oldest first; by agent and its ticket."""

    answers: dict[str, AnswerSpawn] = field(default_factory=dict)


class Spawning(Feature):
    """See the module's docstring."""

    @handles(ev.SpawnRequested)
    def requested(self, turn: Turn, event: ev.SpawnRequested) -> None:
        """The program wants to spawn `count` ranks; the same ticket again gets the same answer."""
        job = turn.state.job(event.job)
        if job.instance != event.instance or job.state not in (JobState.STARTING, JobState.RUNNING):
            raise InvalidTransition(f"job {job.id} is {job.state}: it cannot spawn ranks now")
        if event.count < 1:
            raise InfeasibleRequest("at least one rank is spawned")
        answers, ticket = Spawns.of(job).answers, f"{event.agent}:{event.ticket}"
        known = answers.get(ticket)
        if known is None:
            known = answers[ticket] = _answer(turn, job, event)
            if len(answers) > ANSWERS_KEPT:
                del answers[next(iter(answers))]
        turn.actions.append(known)

    @handles(ev.WorldEnded)
    def ended_world(self, turn: Turn, event: ev.WorldEnded) -> None:
        """All ranks of a spawned world have ended: its processors are the job's no more."""
        job, state = turn.state.job(event.job), turn.state
        gone = _processors_of(job, event.world)
        if job.instance != event.instance or not gone:
            return
        turn.charge(job)  # before it holds less
        job.spawned = tuple(p for p in job.spawned if p not in gone)
        Worlds.of(job).end(gone, event.world)
        state.plan(job, _end(job))
        turn.let_go(job, list(gone))
        job.note(turn.now, "spawned", because("spawn_ended", count=len(gone)))
        turn.schedule()

    def stopped(self, turn: Turn, job: Job) -> None:
        """Agents number the tickets of each start anew."""
        if job.launching.by_agents:
            Spawns.of(job).answers.clear()

    def view(self, state: State, job: Job) -> Mapping[str, Any]:
        """See Feature."""
        return {"spawned": list(job.spawned)}

    def check(self, state: State) -> None:
        """See Feature."""
        for job in state.active.values():
            if not job.launching.by_agents:
                continue
            worlds, holds = Worlds.of(job), set(job.holds())
            if not set(job.spawned) <= worlds.started.keys() <= holds:
                raise InvariantViolation(f"job {job.id} holds {holds}, its worlds are {worlds}")
            pool = state.processors
            gone = {p for p in worlds.ending if pool.vacating.get(p) == job.id or p in pool.down}
            if gone != worlds.ending.keys():
                raise InvariantViolation(f"job {job.id} does not vacate what {worlds} says")


def _processors_of(job: Job, world: int) -> tuple[int, ...]:
    of = Worlds.of(job).started
    return tuple(p for p in job.spawned if of[p] == world)


def _answer(turn: Turn, job: Job, event: ev.SpawnRequested) -> AnswerSpawn:
    state, count = turn.state, event.count
    idle = free(state, turn.now, _end(job), job)
    reason = _refusal(turn, job, count, idle)
    granted = reason is None
    if reason is None:
        reason = because("spawn_granted", count=count, idle=idle)
    job.note(turn.now, "spawn", reason)
    world, processors = 0, tuple[int, ...]()
    if granted:
        world, processors = state.next_resize, state.processors.take(count)
        state.next_resize += 1
        turn.charge(job)  # before it holds more
        job.spawned = (*job.spawned, *processors)
        Worlds.of(job).begin(processors, world)
        state.plan(job, _end(job))
    return AnswerSpawn(job.id, job.instance, event.agent, event.ticket, world, processors, reason)


def _end(job: Job) -> float:
    """When the job's processors are expected back (s); +inf: not known."""
    assert job.planned is not None, "an active job is planned"
    return job.planned[0]


def _refusal(turn: Turn, job: Job, count: int, idle: int) -> Reason | None:
    """Why the job gets nothing; None: it may have them."""
    state, spec = turn.state, job.spec
    if state.paused:
        return because("paused", why=state.paused)
    if spec.kind is JobKind.MALLEABLE:
        return because("spawn_malleable")
    if spec.profile:
        return because("spawn_profile")
    changes = any(f.changes_size(state, job) for f in turn.features["changes_size"])
    if changes or job.resize is not None or job.reserved:
        return because("spawn_resizing")
    if count > idle:
        promised = ", the others are promised" if state.idle > idle else ""
        return because("spawn_too_few", count=count, idle=idle, where=promised)
    return _delayed(turn, job, count, idle)


def _delayed(turn: Turn, job: Job, count: int, idle: int) -> Reason | None:
    """The first waiting job that would start later than planned; None: nobody."""
    state, config, now = turn.state, turn.config, turn.now
    if not state.queue:
        return None
    settings = {"drain_priority": config.drain_priority, "moldable": config.moldable}
    line = state.line(now)
    before = plan_starts(state, line, now, depth=config.reservation_depth, **settings)  # type: ignore[arg-type]
    taken = running(state, now)
    taken.add(now, max(_end(job), nextafter(now, INF)), count)
    planned = [start.job for start in before.jobs]
    after = plan_starts(state, planned, now, depth=INF, taken=taken, **settings)  # type: ignore[arg-type]
    late = {start.job.id: start.start_s for start in after.jobs}
    for start in before.jobs:
        delay_s = late[start.job.id] - start.start_s if start.start_s < INF else 0.0
        if delay_s > ROUNDING_S:
            figures = {"count": count, "idle": idle, "job": start.job.id, "delay_s": delay_s}
            return because("spawn_delays", **figures)
    return None
