"""Maintenance windows: nodes that are to be empty from a time on, for as long as it takes.

    planned ─→ drains (lead) ─→ begun ─→ over: the nodes are offered again

Before a window plans count its processors as taken, and no job that cannot be moved starts on its
nodes if it may still run when the window begins. The nodes drain `[nodes] end_lead_s` before the
beginning (draining.py): jobs that can be moved leave, and what is still there when it begins is
killed; protected jobs start again elsewhere. At the end the nodes that drained for it are resumed.

Choices. A job without walltime and estimate counts as running for ever, so a rigid one is not
placed on nodes with a window ahead. A node that was draining already is left as it is, also at the
end. A node has one window at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from dq_server.core.feature import Feature, handles
from dq_server.core.model import events as ev
from dq_server.core.model.ends import NodeOptions, can_move
from dq_server.core.model.errors import InvalidSpec, InvalidTransition, InvariantViolation
from dq_server.core.model.events import MaintenanceWindow
from dq_server.core.model.jobs import Job, JobState, smallest_start
from dq_server.core.model.reasons import Reason, because, declare
from dq_server.core.model.records import Record
from dq_server.core.model.state import Promises, State
from dq_server.core.model.stepfunction import StepFunction
from dq_server.core.turn import INF, Turn

declare(
    maintenance_ahead="{idle} processors are idle, {usable} of them on nodes without a maintenance"
    " window before the job may have ended; window {window} begins in {in_s:.0f} s",
)


@dataclass(slots=True)
class Windows(Record, key="Windows"):
    """Of the state: windows that are not over, and which of their nodes drain for them."""

    by_name: dict[str, MaintenanceWindow] = field(default_factory=dict)
    drained: dict[str, list[str]] = field(default_factory=dict)


class Maintenance(Feature, Promises):
    claimant = "a maintenance window"

    @handles(ev.MaintenancePlanned)
    def planned(self, turn: Turn, event: ev.MaintenancePlanned) -> None:
        """`dq maintenance NODE ...`; the same request again changes nothing."""
        wanted, windows = event.window, Windows.of(turn.state).by_name
        known = windows.get(wanted.name)
        if known is not None and known.request_id == wanted.request_id:
            return
        _check(turn.state, wanted, turn.now)
        windows[wanted.name] = wanted
        self.tick(turn)  # it may begin at once
        turn.schedule()

    @handles(ev.MaintenanceCancelled)
    def cancelled(self, turn: Turn, event: ev.MaintenanceCancelled) -> None:
        """`dq maintenance --cancel`."""
        if event.name not in Windows.of(turn.state).by_name:
            raise InvalidSpec(f"no maintenance window {event.name}: dq maintenance lists them")
        _over(turn, event.name)

    def tick(self, turn: Turn) -> None:
        """Windows begin, or are over."""
        windows = Windows.of(turn.state)
        for window in list(windows.by_name.values()):
            if window.end_s <= turn.now:
                _over(turn, window.name)
            elif window.name not in windows.drained and _drains_s(turn, window) <= turn.now:
                windows.drained[window.name] = list(_drained(turn, window))

    def deadline(self, turn: Turn) -> Iterable[float]:
        """When the next nodes drain, or are resumed."""
        windows = Windows.of(turn.state)
        for window in windows.by_name.values():
            begun = window.name in windows.drained
            yield window.end_s if begun else _drains_s(turn, window)

    # --- what others may have -------------------------------------------------------------------

    def promises(self, state: State) -> Promises | None:
        windows = Windows.known(state)
        ahead = windows is not None and windows.by_name.keys() - windows.drained.keys()
        return self if ahead else None

    def claims(self, state: State, taken: StepFunction, now: float, *, to_promise: bool) -> None:
        """The nodes of windows ahead; those that drain already are no part of the capacity."""
        for window in _ahead(state):
            count = sum(
                state.processors.returning(state.processors.nodes[name].processors)
                for name in window.nodes
                if state.processors.nodes[name].up
            )
            if count:
                taken.add(max(now, window.start_s), window.end_s, count)

    def usable(self, turn: Turn, job: Job, idle: Sequence[int]) -> Sequence[int] | None:
        """A job that cannot be moved goes where no window begins before it may have ended."""
        if can_move(job):
            return None
        in_the_way = {name for window in _before_end(turn, job) for name in window.nodes}
        node_of = turn.state.processors.node_of
        return [p for p in idle if node_of[p] not in in_the_way] if in_the_way else None

    # --- to be seen -----------------------------------------------------------------------------

    def explain(self, turn: Turn, job: Job) -> list[Reason]:
        """Why a job waits though enough processors are idle."""
        pool = turn.state.processors
        usable = None if job.state is not JobState.QUEUED else self.usable(turn, job, pool.idle)
        if usable is None or not len(usable) < smallest_start(job, moldable=False) <= len(
            pool.idle
        ):
            return []
        first = min(_before_end(turn, job), key=lambda window: window.start_s)
        reason = because(
            "maintenance_ahead",
            idle=len(pool.idle),
            usable=len(usable),
            window=first.name,
            in_s=first.start_s - turn.now,
        )
        return [reason]

    def check(self, state: State) -> None:
        windows = Windows.of(state)
        for name, nodes in windows.drained.items():
            if name not in windows.by_name or not set(nodes) <= set(windows.by_name[name].nodes):
                raise InvariantViolation(f"nodes {nodes} drain for a window {name} without them")


def _check(state: State, wanted: MaintenanceWindow, now: float) -> None:
    windows = Windows.of(state).by_name
    if wanted.name in windows:
        raise InvalidSpec(f"there is a maintenance window named {wanted.name} already")
    if not wanted.nodes or not wanted.start_s < wanted.end_s < INF or wanted.end_s <= now:
        raise InvalidSpec(
            "a maintenance window needs nodes, and an end after its beginning and now"
        )
    for name in wanted.nodes:
        state.processors.node(name)  # UnknownNode
        for window in windows.values():
            if name in window.nodes:
                raise InvalidSpec(f"node {name} has the maintenance window {window.name} already")


def _ahead(state: State) -> Iterator[MaintenanceWindow]:
    """Windows whose nodes do not drain yet."""
    windows = Windows.known(state)
    if windows is not None:
        yield from (w for w in windows.by_name.values() if w.name not in windows.drained)


def _drains_s(turn: Turn, window: MaintenanceWindow) -> float:
    return window.start_s - turn.config.of(NodeOptions).end_lead_s


def _before_end(turn: Turn, job: Job) -> list[MaintenanceWindow]:
    """Windows that begin before the waiting job could have ended if it started now."""
    planned_s = job.spec.planned_s
    end_s = INF if planned_s is None else turn.now + planned_s
    return [window for window in _ahead(turn.state) if window.start_s < end_s]


def _drained(turn: Turn, window: MaintenanceWindow) -> Iterator[str]:
    """Let its nodes drain, until it begins; those that did not drain already."""
    within_s = max(0.0, window.start_s - turn.now)
    for name in window.nodes:
        with suppress(InvalidTransition):
            turn.perform(ev.DrainRequested(name, within_s, window.reason, window.by))
            yield name


def _over(turn: Turn, name: str) -> None:
    """The window is no more: its nodes are offered again."""
    windows = Windows.of(turn.state)
    del windows.by_name[name]
    for node in windows.drained.pop(name, ()):
        with suppress(InvalidTransition):  # somebody has resumed it before
            turn.perform(ev.ResumeRequested(node))
    turn.schedule()
