"""Draining: a node is given nothing new, and what it has leaves it.

    up ─→ draining ─→ empty ─→ left        (lost from each)

*Draining.* Idle processors are withheld at once (model/processors.py). A malleable or an evolving
job leaves at its next remap point: it shrinks to the largest legal size that fits on what stays,
and the verdict names the processors that leave. If no legal size fits there, it first grows onto
idle processors elsewhere. An expansion that includes the node and has not happened is taken back.
A job that can do neither (rigid, or too large) runs there until it ends, or until the deadline:
then it is killed; a protected one starts again elsewhere.

*Empty.* Nothing of any job is on the node. Under mpiexec a job also is where it started, because
its launcher runs there.

*Left.* A node that is to leave (its agent was told to go, or a user removes it) does so when it is
empty. It is up again when an agent offers it. A drain that a user asked for outlives a loss of the
node and its agent's leaving, until a user resumes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from dq_server.core.feature import Change, Feature, Rank, What, handles
from dq_server.core.model import events as ev
from dq_server.core.model.actions import NodeEmptied
from dq_server.core.model.decisions import Start, Verdict
from dq_server.core.model.errors import InvalidTransition, InvariantViolation
from dq_server.core.model.jobs import ACTIVE, Job, JobKind, JobState
from dq_server.core.model.processors import Node
from dq_server.core.model.reasons import Figure, Reason, because, declare
from dq_server.core.model.records import Record
from dq_server.core.model.sizes import Configuration, largest_at_most
from dq_server.core.model.state import State
from dq_server.core.planning import free
from dq_server.core.transaction import nodes_named
from dq_server.core.turn import INF, Turn

declare(
    drained="node {node} was to be empty within {within_s:g} s and the job was still there:"
    " drained by {by}{why}",
    drain_shrink="{nodes} drains: from {size} to {next_size}, off the {count} processors there",
    drain_detour="{nodes} drains, and no legal size fits on the {stays} processors that stay: from"
    " {size} to {next_size} first, {idle} are idle elsewhere",
    drain_leaves_soon="{nodes} drains: the job leaves the {count} processors there at its next"
    " remap point",
    drain_stays="{nodes} drains; the job has {count} processors there and {cannot}; it may stay"
    " {until}",
)


class NodeState(StrEnum):
    """See the picture in this module's docstring."""

    UP = "up"
    DRAINING = "draining"
    EMPTY = "empty"
    LEFT = "left"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Drain:
    """That a node drains, or is to when it comes back; see DrainRequested for the fields."""

    asked_s: float
    deadline_s: float | None
    reason: str
    by: str
    leaves: bool = False
    life: str = ""
    lasting: bool = False  # a user wants it: it ends when a user says so
    overdue: bool = False  # the deadline has passed, and what was left has been killed
    told: bool = False  # that it is empty, if it leaves

    @property
    def why(self) -> str:
        """The reason at the end of a sentence."""
        return f" ({self.reason})" if self.reason else ""


@dataclass(slots=True)
class Drains(Record, key="Drains"):
    """Of the state."""

    nodes: dict[str, Drain] = field(default_factory=dict)
    gone: dict[str, str] = field(default_factory=dict)  # nodes that have left -> their agent's life


class Draining(Feature):
    # --- what is asked for ----------------------------------------------------------------------

    @handles(ev.DrainRequested)
    def drain_requested(self, turn: Turn, event: ev.DrainRequested) -> None:
        """`dq node drain`, `dq node remove`, or an agent that was told to go."""
        state, now = turn.state, turn.now
        node, drains = state.processors.node(event.node), Drains.of(state)
        known = drains.nodes.get(node.name)
        _check_request(state, node, event, now)
        if event.leaves and not node.up:
            drains.nodes.pop(node.name, None)
            drains.gone[node.name] = ""
            return
        deadline_s = None if event.within_s is None else now + event.within_s
        lasting, reason, by, life = not event.leaves, event.reason, event.by, event.life
        if known is not None:  # it was to be empty, and now is to leave as well
            ends = [s for s in (known.deadline_s, deadline_s) if s is not None]
            deadline_s = min(ends, default=None)
            lasting = known.lasting and bool(event.life)
            reason, life = reason or known.reason, life or known.life
        drains.nodes[node.name] = Drain(now, deadline_s, reason, by, event.leaves, life, lasting)
        if node.up:
            self._withhold(turn, node)

    @handles(ev.ResumeRequested)
    def resume_requested(self, turn: Turn, event: ev.ResumeRequested) -> None:
        """`dq node resume`, or the agent of a node that was leaving is another one now."""
        state = turn.state
        node, drains = state.processors.node(event.node), Drains.of(state)
        drain = drains.nodes.get(node.name)
        if drain is None:
            raise InvalidTransition(_nothing_to_resume(node, state))
        if drain.life and not event.life:
            raise InvalidTransition(
                f"node {node.name} leaves, because its agent was stopped: start the agent again"
            )
        if event.life and drain.lasting:
            drains.nodes[node.name] = replace(drain, leaves=False, life="", told=False)
            return
        del drains.nodes[node.name]
        if node.up:
            state.processors.offer(node)
            state.plan_again(node.processors)
            turn.capacity_changed()

    @handles(ev.NodeLeft)
    def node_left(self, turn: Turn, event: ev.NodeLeft) -> None:
        """The agent of an empty node goes, or has the node no more."""
        state = turn.state
        node, drains = state.processors.node(event.node), Drains.of(state)
        drain = drains.nodes.get(node.name)
        if drain is None or not drain.leaves or state_of(state, node) is not NodeState.EMPTY:
            raise InvalidTransition(f"node {node.name} is {state_of(state, node)}: it cannot leave")
        state.processors.lose(node.name)
        drains.gone[node.name] = event.life
        _forget(drains, node.name, drain)
        turn.changed(What.LEFT, node.name)

    def _withhold(self, turn: Turn, node: Node) -> None:
        state = turn.state
        state.processors.withhold(node)
        state.plan_again(node.processors)
        for job in state.active.values():
            if _can_move(job) and job.resize is None and not job.called and _on(state, job, node):
                turn.call(job)
        turn.capacity_changed()

    # --- nodes that come and go -----------------------------------------------------------------

    def changed(self, turn: Turn, change: Change) -> None:
        match change.what:
            case What.LOSING:  # a drain that a user asked for holds when it is back
                drains = Drains.of(turn.state)
                drain = drains.nodes.get(change.node)
                if drain is not None:
                    _forget(drains, change.node, drain)
            case What.CAPACITY:
                self._withhold_again(turn)
            case What.VACATED:
                self._report_empty(turn)

    def _withhold_again(self, turn: Turn) -> None:
        """Nodes that come back may still be draining."""
        drains, pool = Drains.of(turn.state), turn.state.processors
        for name in [name for name in drains.gone if pool.nodes[name].up]:
            del drains.gone[name]
        for name in drains.nodes:
            node = pool.nodes[name]
            if node.up:
                pool.withhold(node)
                turn.state.plan_again(node.processors)

    def starts(self, turn: Turn) -> list[Start]:
        """Processors may have been given back: nodes may be empty. Nobody starts."""
        self._report_empty(turn)
        return []

    def _report_empty(self, turn: Turn) -> None:
        """Nodes that are to leave, and are empty now, can go."""
        drains = Drains.of(turn.state).nodes
        for name, drain in drains.items():
            if drain.leaves and not drain.told:
                node = turn.state.processors.nodes[name]
                if state_of(turn.state, node) is NodeState.EMPTY:
                    drains[name] = replace(drain, told=True)
                    turn.actions.append(NodeEmptied(name))

    # --- jobs leave -----------------------------------------------------------------------------

    def verdict(self, turn: Turn, job: Job, rank: Rank) -> Verdict | None:
        """Off the nodes that drain; None if the job has nothing there, or cannot leave."""
        state = turn.state
        withheld = state.processors.withheld
        if not withheld or rank is Rank.AFTER_USER or not _can_move(job):
            return None
        stay = [p for p in job.allocation if p not in withheld]
        leaving = [p for p in job.allocation if p in withheld]
        if not leaving:
            return None
        target = _target(job, len(stay))
        if target is None:
            return _detour(turn, job, leaving)
        kept = set(stay[: target.size])
        off = tuple(p for p in job.allocation if p not in kept)
        figures = {"size": job.size, "next_size": target.size, "count": len(leaving)}
        reason = because("drain_shrink", nodes=nodes_named(state, leaving), **figures)
        return Verdict(target, reason, processors=off)

    def tick(self, turn: Turn) -> None:
        """Deadlines: what is still there is killed."""
        drains = Drains.of(turn.state).nodes
        for name, drain in drains.items():
            if drain.overdue or drain.deadline_s is None or drain.deadline_s > turn.now:
                continue
            drains[name] = replace(drain, overdue=True)
            within_s = round(drain.deadline_s - drain.asked_s, 1)
            by = drain.by or "the user"
            reason = because("drained", node=name, within_s=within_s, by=by, why=drain.why)
            node = turn.state.processors.nodes[name]
            for job in holders(turn.state, node) if node.up else ():
                if job.state is not JobState.KILLING:
                    turn.kill(job, reason)

    def deadline(self, turn: Turn) -> Iterable[float]:
        """Deadlines that have not passed."""
        for drain in Drains.of(turn.state).nodes.values():
            if drain.deadline_s is not None and not drain.overdue:
                yield drain.deadline_s

    # --- to be seen -----------------------------------------------------------------------------

    def explain(self, turn: Turn, job: Job) -> list[Reason]:
        """What becomes of a job on nodes that drain."""
        state = turn.state
        withheld = state.processors.withheld
        if not withheld or job.state not in ACTIVE or job.state is JobState.KILLING:
            return []
        there = [p for p in job.holds() if p in withheld]
        if not there:
            return []
        figures: dict[str, Figure] = {"nodes": nodes_named(state, there), "count": len(there)}
        cannot = _cannot_leave(job, withheld)
        if not cannot:
            return [because("drain_leaves_soon", **figures)]
        nodes, node_of = Drains.of(state).nodes, state.processors.node_of
        deadlines = (nodes[node_of[p]].deadline_s for p in there)
        ends = [deadline_s for deadline_s in deadlines if deadline_s is not None]
        until = f"for another {max(0.0, min(ends) - turn.now):.0f} s" if ends else "until it ends"
        return [because("drain_stays", cannot=cannot, until=until, **figures)]

    def check(self, state: State) -> None:
        drains, nodes = Drains.of(state), state.processors.nodes
        wanted = {p for name in drains.nodes if nodes[name].up for p in nodes[name].processors}
        if wanted != state.processors.withheld:
            raise InvariantViolation(f"{state.processors.withheld} withheld, not {wanted}")
        for name in drains.gone:
            if nodes[name].up:
                raise InvariantViolation(f"node {name} has left, and is up")


def state_of(state: State, node: Node) -> NodeState:
    """Where in its life the node is."""
    drains = Drains.of(state)
    if not node.up:
        return NodeState.LEFT if node.name in drains.gone else NodeState.LOST
    if node.name not in drains.nodes:
        return NodeState.UP
    if state.processors.resting.issuperset(node.processors) and not _launchers(state, node):
        return NodeState.EMPTY
    return NodeState.DRAINING


def holders(state: State, node: Node) -> list[Job]:
    """Active jobs that keep the node from being empty, in the order of starting."""
    return [job for job in state.active.values() if _on(state, job, node)]


# --- requests --------------------------------------------------------------------------------


def _check_request(state: State, node: Node, event: ev.DrainRequested, now: float) -> None:
    """InvalidTransition if it asks for what is the case already."""
    if node.name in Drains.of(state).gone:
        raise InvalidTransition(f"node {node.name} has left already")
    known = Drains.of(state).nodes.get(node.name)
    if known is None or (event.leaves and not known.leaves) or (event.life and not known.life):
        return
    deadline_s = INF if event.within_s is None else now + event.within_s
    if event.leaves and deadline_s < (INF if known.deadline_s is None else known.deadline_s):
        return  # whoever it belongs to wants it back sooner
    is_now = state_of(state, node)
    told = f"node {node.name} is {is_now} already, asked for by {known.by or 'a user'}{known.why}"
    if known.leaves:
        told += ", and leaves when it is empty"
    if known.deadline_s is not None:
        told += f", {max(0.0, known.deadline_s - now):.0f} s before its deadline"
    here = [str(job.id) for job in holders(state, node)]
    told += f"; jobs there: {', '.join(here) or 'none'}"
    raise InvalidTransition(f"{told}. dq node resume {node.name} takes it back")


def _nothing_to_resume(node: Node, state: State) -> str:
    is_now = state_of(state, node)
    told = f"node {node.name} is {is_now}: there is nothing to resume"
    return told if node.up else f"{told}, it is up again when its agent is"


def _forget(drains: Drains, node: str, drain: Drain) -> None:
    """The node is down: only what a user wants is kept for when it is up again."""
    if drain.lasting:
        drains.nodes[node] = replace(drain, leaves=False, life="", told=False)
    else:
        del drains.nodes[node]


# --- jobs ------------------------------------------------------------------------------------


def _on(state: State, job: Job, node: Node) -> bool:
    node_of = state.processors.node_of
    if not job.launching.by_agents and node_of[job.first_processor] == node.name:
        return True
    return any(node_of[p] == node.name for p in job.holds())


def _launchers(state: State, node: Node) -> bool:
    """Whether a launcher runs there, of a job that may have no rank there any more."""
    first = {job.first_processor for job in state.active.values() if not job.launching.by_agents}
    return not first.isdisjoint(node.processors)


def _can_move(job: Job) -> bool:
    """Whether the job can be resized to leave a node."""
    return job.spec.kind in (JobKind.MALLEABLE, JobKind.EVOLVING)


def _target(job: Job, room: int) -> Configuration | None:
    """The job's largest legal configuration on that many processors; None: there is none."""
    spec = job.spec
    if spec.kind is JobKind.MALLEABLE or spec.profile:
        return largest_at_most(job.chain, room)
    legal = spec.configurations
    # Several legal sizes are a range for an evolving job; a single one is only where it starts.
    smallest = legal[0].size if len(legal) > 1 else 1
    sizes = (size for size in range(room, smallest - 1, -1) if spec.runs_on(size))
    fits = next(sizes, None)
    return spec.configuration_of(fits) if fits is not None else None


def _detour(turn: Turn, job: Job, leaving: list[int]) -> Verdict | None:
    """Grow onto idle processors elsewhere, so that a legal size fits without those that leave."""
    state, size = turn.state, job.size
    if job.spec.profile or (job.settle and job.aborts):  # the last attempt failed
        return None
    idle = free(state, turn.now, job.planned_end_s, job)
    target = next((c for c in _larger(job, idle) if _target(job, c.size - len(leaving))), None)
    if target is None:
        return None
    figures = {"size": size, "next_size": target.size, "stays": size - len(leaving), "idle": idle}
    return Verdict(target, because("drain_detour", nodes=nodes_named(state, leaving), **figures))


def _larger(job: Job, idle: int) -> Iterable[Configuration]:
    """Legal configurations for which that many more processors suffice, ascending."""
    size, legal = job.size, job.spec.configurations
    if job.spec.kind is JobKind.MALLEABLE:
        return (c for c in job.chain if size < c.size <= size + idle)
    largest = legal[-1].size if len(legal) > 1 else size + idle
    larger = range(size + 1, min(largest, size + idle) + 1)
    return (job.spec.configuration_of(n) for n in larger if job.spec.runs_on(n))


def _cannot_leave(job: Job, withheld: set[int]) -> str:
    """Why the job stays on its nodes, for people; empty: it leaves."""
    if not _can_move(job):
        return f"is {job.spec.kind}"
    if not withheld.isdisjoint(job.spawned):
        return "has spawned ranks there, which nothing can move"
    stays = sum(p not in withheld for p in job.allocation)
    if _target(job, stays) is None and not withheld.isdisjoint(job.allocation):
        return f"no legal size fits on the {stays} that stay"
    return ""
