"""Nodes come and go, are loaded by others, and lose output; grants are paused; time passes.

What the load outside DQ is good for: model/places.py, as is where a job ran when.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, Self

from dq_server.core.feature import Change, Feature, What, handles
from dq_server.core.model import events as ev
from dq_server.core.model.actions import WarnJob
from dq_server.core.model.decisions import Ending
from dq_server.core.model.ends import Ends
from dq_server.core.model.jobs import Job, JobState
from dq_server.core.model.launching import Worlds
from dq_server.core.model.places import (
    Left,
    LeftSizes,
    Load,
    Loads,
    Places,
    begin_span,
    note_nodes,
    ran_on,
    spans_of,
)
from dq_server.core.model.processors import Node
from dq_server.core.model.reasons import because, declare
from dq_server.core.model.records import Record
from dq_server.core.model.state import Derived, State
from dq_server.core.turn import Turn

ROUNDING_S = 1.0  # far more than what a due time may be wrong by: who is due by then is looked at

declare(
    walltime="the walltime of {walltime_s:g} s was exceeded",
    node_shrank="node {node} came back with {has} processors instead of {had}: what ran on the"
    " others is lost",
    walltime_warning="{left_s:g} s of the walltime of {walltime_s:g} s are left",
    output_lost="{lost_bytes} bytes of the output of its ranks on {node} are lost: {why}",
)


@dataclass(slots=True)
class LostOutput(Record, key="LostOutput"):
    """Of a job: bytes of its output that are lost, by node and start."""

    lost: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class MeasuredUsage(Record, key="Usage"):
    """Of a job: CPU time of its parts that have ended; the most memory that all had at one time."""

    cpu_s: float = 0.0
    memory_max: int = 0


class Walltimes(Derived):
    """Due times of active jobs, ascending."""

    def __init__(self, warning_s: float = 0.0) -> None:
        super().__init__()
        self._warning_s = warning_s
        self._line: list[tuple[float, int]] = []
        self._due_s: dict[int, float] = {}  # the same, by job

    @classmethod
    def warning(cls, state: State, warning_s: float) -> Walltimes:
        """The one of this state, if jobs are warned that long before the end."""
        found = cls.of(state)
        if found._warning_s != warning_s:  # another configuration
            state.derived[cls.__name__] = found = cls(warning_s)
            found.touched.update(state.active)
            found = cls.of(state)
        return found

    def anew(self) -> Self:
        return type(self)(self._warning_s)

    def update(self, state: State, job_id: int, job: Job | None) -> None:
        before_s = self._due_s.pop(job_id, None)
        if before_s is not None:
            del self._line[bisect_left(self._line, (before_s, job_id))]
        end_s = None if job is None else walltime_end(job)
        if job is not None and end_s is not None and job.start_s is not None:
            due_s = end_s if job.warned else max(end_s - self._warning_s, job.start_s)
            self._due_s[job_id] = due_s
            insort(self._line, (due_s, job_id))

    def said(self) -> object:
        return self._due_s, self._line

    def due(self, by_s: float) -> set[int]:
        """Jobs of which something is due by then."""
        return {job_id for _, job_id in self._line[: bisect_right(self._line, (by_s, inf))]}

    def next_s(self) -> float | None:
        """When something is due next; None: no job has a walltime."""
        return self._line[0][0] if self._line else None


def walltime_end(job: Job) -> float | None:
    """When an active job's walltime ends (s); None: it has none, or is being killed already."""
    walltime_s = job.spec.walltime_s
    if walltime_s is None or job.start_s is None or job.state is JobState.KILLING:
        return None
    return job.start_s + walltime_s


class Nodes(Feature):
    @handles(ev.NodeJoined)
    def joined(self, turn: Turn, event: ev.NodeJoined) -> None:
        """A node offers its processors; one that is up may say that it has others now."""
        # Of a node that was never there nobody holds anything, and thousands may join at once.
        pool = turn.state.processors
        node = pool.nodes.get(event.node)
        active = turn.state.active.values() if node is not None else ()
        if event.until_s is not None:
            Ends.of(turn.state).learn(event.node, event.until_s, turn.now)
        if node is not None and node.up:
            self._changed(turn, node, event)
            return
        owned = [p for job in active for p in job.holds()]
        # Ranks that nobody needs any more may have been there when the node was lost: as then, they
        # have to end first.
        left = {job.id: _ending(turn.state, job, event.node) for job in active}
        owned += [p for processors in left.values() for p in processors]
        pool.join(event.node, event.processors, event.speed, owned)
        _describe(pool.nodes.get(event.node), event)
        for job in active:
            if left[job.id]:
                turn.let_go(job, left[job.id])
        turn.capacity_changed()

    def _changed(self, turn: Turn, node: Node, event: ev.NodeJoined) -> None:
        """A node that is up is another one now: what runs on processors that are gone is lost."""
        state = turn.state
        had = len(node.processors)
        _describe(node, event)
        if had != event.processors:
            owned = [p for job in state.active.values() for p in job.holds()]
            state.processors.offer(node)  # those who drain it take it back below
            gone = state.processors.resize(node, event.processors, owned)
            reason = because("node_shrank", node=node.name, had=had, has=event.processors)
            for job in list(state.active.values()):
                if not set(gone).isdisjoint(job.holds()):
                    turn.kill(job, reason)
            # After the drains: what these give back counts again.
            turn.capacity_changed()
            state.plan_again((*node.processors, *gone))
        turn.schedule()

    @handles(ev.NodeLost)
    def lost(self, turn: Turn, event: ev.NodeLost) -> None:
        """Missing heartbeats: kill the jobs on the node everywhere, reclaim their processors.

        Source: ReSHAPE thesis, 3.4.2. A job that has nobody left to report its end ends here: one
        whose launcher was on the node, on its first node even if no rank is left there; without a
        launcher, one that has no other node. The others end when an agent says so. Protected jobs
        start again instead of failing.
        """
        state = turn.state
        reason = because("node_lost", node=event.node, why=event.why)
        turn.changed(What.LOSING, event.node, reason)
        drained = bool(state.processors.withheld)
        lost = set(state.processors.lose(event.node))
        if drained:
            state.plan_again(lost)
        for job in list(state.active.values()):
            holds = job.holds()
            if job.launching.by_agents:
                unheard = state.processors.down.issuperset(holds)
            else:
                unheard = job.first_processor in lost
            if lost.isdisjoint(holds) and (job.launching.by_agents or not unheard):
                continue
            turn.kill(job, reason)
            if unheard and not turn.restart_if_possible(job, Ending(reason)):
                turn.finish(job, JobState.FAILED, reason)
        turn.changed(What.VACATED)  # a lost node's processors are not waited for
        turn.capacity_changed()

    def started(self, turn: Turn, job: Job) -> None:
        note_nodes(turn.state, job, job.allocation)
        begin_span(turn.state, job, turn.now)

    def resize_granted(self, turn: Turn, job: Job) -> None:
        """Its ranks are started before it is carried out; it is about to leave its size."""
        node_of = turn.state.processors.node_of
        note_nodes(turn.state, job, job.reserved)
        if turn.config.searches and node_of:
            nodes = list(dict.fromkeys(node_of[p] for p in job.allocation))
            LeftSizes.of(job).sizes[job.size] = Left(turn.now, nodes)

    def resize_committed(self, turn: Turn, job: Job) -> None:
        Places.of(job).end(turn.now)
        begin_span(turn.state, job, turn.now)

    def stopped(self, turn: Turn, job: Job, *, goes_on: bool) -> None:
        if not goes_on:
            Places.of(job).end(turn.now)

    def view(self, state: State, job: Job) -> Mapping[str, Any]:
        lost = sum(LostOutput.of(job).lost.values())
        return {
            "ran_on": ran_on(state, job),
            "places": spans_of(job),
            "output_lost_bytes": lost,
        }

    @handles(ev.UsageMeasured)
    def usage_measured(self, turn: Turn, event: ev.UsageMeasured) -> None:
        """Ranks of a job on one agent's nodes have ended, perhaps the last ones."""
        job = turn.state.jobs.get(event.job)
        if job is None:  # it is forgotten
            return
        usage = MeasuredUsage.of(job)
        usage.cpu_s += event.cpu_s
        usage.memory_max = max(usage.memory_max, event.memory_max)

    @handles(ev.OutputLost)
    def output_lost(self, turn: Turn, event: ev.OutputLost) -> None:
        """An agent reports how much of a start's output its nodes have lost, perhaps once more."""
        job = turn.state.jobs.get(event.job)
        if job is None:  # it ended long ago
            return
        lost, where = LostOutput.of(job).lost, f"{event.node} {event.instance}"
        if event.lost_bytes <= lost.get(where, 0):
            return
        lost[where] = event.lost_bytes
        reason = because("output_lost", lost_bytes=event.lost_bytes, node=event.node, why=event.why)
        job.note(turn.now, "output", reason)
        turn.state.touch(job)

    @handles(ev.BackgroundLoad)
    def load_changed(self, turn: Turn, event: ev.BackgroundLoad) -> None:
        """The load of a machine is another one now."""
        for name in event.nodes:
            turn.state.processors.node(name)  # UnknownNode
        for name in event.nodes:
            load = Loads.of(turn.state).nodes.setdefault(name, Load())
            if event.processors < load.processors:
                load.before, load.fell_s = load.processors, turn.now
            load.processors = event.processors

    def changed(self, turn: Turn, change: Change) -> None:
        """Nothing is known of the load of a node that is not there any more."""
        if change.what in (What.LOSING, What.LEFT):
            Loads.of(turn.state).nodes.pop(change.node, None)

    @handles(ev.GrantsPaused)
    def are_paused(self, turn: Turn, event: ev.GrantsPaused) -> None:
        """The shell cannot carry grants out for a while, or can again."""
        turn.state.paused = (event.why or "paused") if event.paused else ""
        turn.changed(What.PAUSED)
        turn.schedule()

    @handles(ev.Tick)
    def time_passed(self, turn: Turn, event: ev.Tick) -> None:
        """What is due? Asked of every feature in its order, this one's walltimes among them."""
        for feature in turn.features[Feature.tick]:
            feature.tick(turn)
        turn.schedule()

    def tick(self, turn: Turn) -> None:
        """Walltimes: a warning before the end, then the end."""
        state = turn.state
        times = Walltimes.warning(state, turn.config.walltime_warning_s)
        due = times.due(turn.now + ROUNDING_S)
        # In the order of starting, as everything that happens to several jobs.
        for job in [job for job in state.active.values() if job.id in due] if due else ():
            end_s = walltime_end(job)
            walltime_s = job.spec.walltime_s
            if end_s is None or walltime_s is None:
                continue
            left_s = end_s - turn.now
            if left_s <= 0:
                turn.kill(job, because("walltime", walltime_s=walltime_s))
            elif left_s <= turn.config.walltime_warning_s and not job.warned:
                job.warned = True
                state.touch(job)
                reason = because("walltime_warning", left_s=left_s, walltime_s=walltime_s)
                job.note(turn.now, "warning", reason)
                turn.actions.append(WarnJob(job.id, reason))

    def deadline(self, turn: Turn) -> Iterable[float]:
        """When the next walltime, or its warning, is due."""
        next_s = Walltimes.warning(turn.state, turn.config.walltime_warning_s).next_s()
        return () if next_s is None else (next_s,)


def _describe(node: Node | None, event: ev.NodeJoined) -> None:
    """Take over what the node has; None: processors of a simulation that have no node."""
    if node is not None:
        node.speed, node.memory = event.speed, event.memory
        node.gpus, node.features = event.gpus, event.features


def _ending(state: State, job: Job, node: str) -> list[int]:
    """Processors of a node that comes back where ranks of a world of the job were to end."""
    if not job.launching.by_agents:
        return []
    node_of, vacating = state.processors.node_of, state.processors.vacating
    ending = Worlds.of(job).ending
    return [p for p in ending if node_of[p] == node and p not in vacating]
