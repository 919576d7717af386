"""Programs that somebody has started with mpiexec and that attach themselves: jobs from then on.

Their ranks run before the scheduler hears of them. If the nodes where they run have idle processors
for all of them, which nobody was promised and which no waiting job will need, these become the
job's, and the job starts at once: the agents take its processes in instead of starting any. If not,
the refusal says what is missing, and the program is none of the scheduler's affairs.

From then on it is a job as any other whose ranks the agents look after: those that join it later
are started by them, so it grows by worlds that join, whatever is configured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dq_server.core.feature import Feature, handles
from dq_server.core.model import events as ev
from dq_server.core.model.decisions import Start
from dq_server.core.model.errors import InsufficientResources, InvalidSpec
from dq_server.core.model.jobs import Job, JobSpec, JobState
from dq_server.core.model.launching import Launching
from dq_server.core.model.reasons import because, declare
from dq_server.core.model.records import Record
from dq_server.core.model.state import State
from dq_server.core.planning import INF, free
from dq_server.core.planning.delays import first_delayed
from dq_server.core.turn import Turn

declare(attached="started with mpiexec on {size} processors, and attached: {idle} were idle")


@dataclass(slots=True)
class Attached(Record):
    """Of a job that attached itself; empty for all others."""

    key = "Attached"

    pids: tuple[int, ...] = ()  # of the ranks that it started with


class Attaching(Feature):
    @handles(ev.JobAttached)
    def attached(self, turn: Turn, event: ev.JobAttached) -> None:
        """A program that runs becomes a job; the same request id again yields the same job."""
        spec, state = event.spec, turn.state
        if turn.accepted_before(spec):
            return
        _validate(event)
        if not turn.decided:
            _ask(turn, spec)
        idle, processors = state.idle, _room(turn, event)
        if not turn.decided:
            _check_promises(turn, spec, len(processors))
        job = turn.accept(spec)
        for feature in turn.features[Feature.entered]:
            feature.entered(turn, job)
        Attached.of(job).pids = event.pids
        job.move(JobState.QUEUED)
        turn.enqueue(job)
        reason = because("attached", size=len(processors), idle=idle)
        turn.start(Start(job, spec.initial, reason, processors, Launching.JOIN))

    def view(self, state: State, job: Job) -> Mapping[str, Any]:
        return {"attached": bool(Attached.of(job).pids)}


def _validate(event: ev.JobAttached) -> None:
    spec, ranks = event.spec, len(event.pids)
    spec.validate()
    if spec.initial.size != ranks or len(event.place_of) != ranks:
        raise InvalidSpec(f"the program runs with {ranks} ranks, not {spec.initial.size}")
    if not set(event.place_of) <= set(range(len(event.places))):
        raise InvalidSpec("a rank of the program runs nowhere")
    nodes = [node for place in event.places for node in place]
    if len(set(nodes)) < len(nodes):
        raise InvalidSpec("the places where its ranks run have a node in common")
    if spec.hold or spec.follows or spec.reservation or spec.profile:
        raise InvalidSpec("a program that runs already cannot wait for a time, a job or a release")
    if spec.needs is not None:
        raise InvalidSpec("a program that runs already cannot choose its nodes: no needs")
    if spec.protection is not None:
        raise InvalidSpec("a program that somebody else started cannot be restarted: no protection")


def _ask(turn: Turn, spec: JobSpec) -> None:
    """Raise a SchedulerError if a feature refuses the job, for ever or for now."""
    turn.ask_features(spec, running=True)


def _check_promises(turn: Turn, spec: JobSpec, size: int) -> None:
    """InsufficientResources, with the figures, if others were promised what it runs on."""
    state, now, planned_s = turn.state, turn.now, spec.planned_s
    end_s = INF if planned_s is None else now + planned_s
    usable = free(state, now, end_s)
    if size > usable:
        raise InsufficientResources(
            f"it needs {size} processors: of the {state.idle} idle ones {usable} are not promised"
        )
    late = first_delayed(state, turn.config, now, size, end_s)
    if late is not None:
        raise InsufficientResources(
            f"it needs {size} processors, {state.idle} are idle, but job {late[0].id}, which waits,"
            f" would start {_how_late(late[1])}"
        )


def _room(turn: Turn, event: ev.JobAttached) -> tuple[int, ...]:
    """The processor of each rank; InsufficientResources, with the figures, if there are too few."""
    state, pool = turn.state, turn.state.processors
    if state.paused:
        raise InsufficientResources(f"nothing is granted at the moment: {state.paused}")
    spare = [[p for p in pool.idle if pool.node_of[p] in nodes] for nodes in map(set, event.places)]
    for place, count in Counter(event.place_of).items():
        idle = len(spare[place])
        if count > idle:
            nodes = _named(event.places[place])
            raise InsufficientResources(f"its {count} ranks run on {nodes}: {idle} idle processors")
    mine = [iter(processors) for processors in spare]
    return tuple(next(mine[place]) for place in event.place_of)


def _named(nodes: tuple[str, ...]) -> str:
    return nodes[0] if len(nodes) == 1 else f"{len(nodes)} nodes from {nodes[0]} to {nodes[-1]}"


def _how_late(delay_s: float) -> str:
    return "nobody knows when" if delay_s == INF else f"{delay_s:.0f} s later"
