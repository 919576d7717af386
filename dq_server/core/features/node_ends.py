"""Nodes whose time ends: they drain before, and what cannot be moved is not placed over the end.

    joined ──────────────────────────────┬ lead ┬ margin ┐ until_s
    jobs of all kinds that fit           │drains│ended   │ gone

The lead is `[nodes] end_lead_s`, or a quarter of the node's time if that is less. Jobs that can be
moved leave in it as they leave every node that drains (draining.py), and the node with them.

A waiting job that cannot be moved starts only on nodes that are there for as long as it plans to
run. If no node lasts that long, it stands aside, so that it holds up nobody; the pool asks for new
nodes for it (pool_policy.py). One that would never get them is refused. A job that does not say how
long it runs is taken to need nodes that last; where these are too few to hold it at all, it
starts anywhere, and is ended with its node (model/ends.py, needed_until_s).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from dq_server.core.feature import Change, Feature, What
from dq_server.core.model import events as ev
from dq_server.core.model.decisions import Start
from dq_server.core.model.ends import (
    INF,
    MARGIN_S,
    MOVABLE,
    Ends,
    NodeOptions,
    can_move,
    known,
    lasting,
    lasting_of,
    needed_until_s,
)
from dq_server.core.model.errors import InfeasibleRequest, InvalidTransition
from dq_server.core.model.jobs import Job, JobSpec
from dq_server.core.model.pool import PoolOptions
from dq_server.core.model.reasons import Reason, because, declare
from dq_server.core.model.state import Place, PlaceOf, State
from dq_server.core.pool_queues import lasting as may_last
from dq_server.core.pool_queues import under_way
from dq_server.core.turn import Turn

declare(
    node_time_short="the job cannot be moved and needs {size} processors for {needs_s:.0f} s;"
    " {lasting} are on nodes that last long enough",
)
BY = "DQ"
ITS_TIME_ENDS = "its time ends"


class NodeEnds(Feature):
    # --- nodes ----------------------------------------------------------------------------------

    def changed(self, turn: Turn, change: Change) -> None:
        """The end of a node that is lost, or has left, counts no more."""
        ends = known(turn.state)
        if ends is not None and change.what in (What.LOSING, What.LEFT):
            ends.forget(change.node)

    def tick(self, turn: Turn) -> None:
        """Nodes whose time is nearly over drain, and leave."""
        ends = known(turn.state)
        if ends is None:
            return
        for name, drain_s in _drains(turn, ends):
            if drain_s > turn.now:
                continue
            ends.drained[name] = turn.now
            left_s = max(0.0, ends.usable_until_s(name) - turn.now)
            with suppress(InvalidTransition):  # it is to leave already, and no later
                turn.perform(ev.DrainRequested(name, left_s, ITS_TIME_ENDS, BY, leaves=True))
                turn.changed(What.VACATED)  # it may be empty, and can go

    def deadline(self, turn: Turn) -> Iterable[float]:
        """When the next nodes drain."""
        ends = known(turn.state)
        return () if ends is None else (drain_s for _, drain_s in _drains(turn, ends))

    # --- jobs -----------------------------------------------------------------------------------

    def admit(self, turn: Turn, spec: JobSpec, count: int, *, running: bool) -> None:
        """Refuse what could be placed nowhere."""
        ends, pool = known(turn.state), turn.config.of(PoolOptions)
        if spec.planned_s is None or spec.protection is not None or spec.kind in MOVABLE:
            return
        if ends is None and pool.lasts_s is None and not pool.queues:
            return
        if pool.queues:
            if spec.needed <= may_last(pool, spec.planned_s):
                return
        elif pool.max and (pool.lasts_s is None or spec.planned_s <= pool.lasts_s - MARGIN_S):
            return
        have = lasting(turn.state, ends or Ends(), turn.now + spec.planned_s)
        if have < spec.needed:
            more = f", nodes of the pool last {pool.lasts_s:g} s" if pool.lasts_s else ""
            for q in pool.queues:
                most = pool.processors_of([q])
                last = "any time" if q.lasts_s is None else f"{q.lasts_s:g} s"
                more += f", queue {q.name} has {most} for {last}"
            raise InfeasibleRequest(
                f"the job cannot be moved and may run for {spec.planned_s:g} s. Of the"
                f" {spec.needed} processors needed, {have} are on nodes that last long enough"
                f"{more}; give a shorter --walltime, or submit it as malleable"
            )

    def starts(self, turn: Turn) -> list[Start]:
        """A pass begins: who needs longer than its nodes last stands aside. Nobody starts."""
        state, ends = turn.state, known(turn.state)
        if ends is not None:
            ends.aside = sorted(
                job.id
                for job in state.queue.values()
                if not can_move(job)
                and lasting(state, ends, needed_until_s(state, ends, job, turn.now))
                < job.preferred.size
            )
        return []

    def line(self, state: State) -> PlaceOf | None:
        """See `starts`."""
        ends = known(state)
        if ends is None or not ends.aside:
            return None
        waiting = frozenset(ends.aside)
        return lambda job: Place.ASIDE if job.id in waiting else Place.IN_ORDER

    def usable(self, turn: Turn, job: Job, idle: Sequence[int]) -> Sequence[int] | None:
        """A job that cannot be moved goes where the nodes are there for long enough."""
        ends = known(turn.state)
        if ends is None or can_move(job):
            return None
        until_s = needed_until_s(turn.state, ends, job, turn.now)
        found = lasting_of(turn.state, ends, idle, until_s)
        # The shortest that is long enough; nobody knows how long is enough for some.
        return found[::-1] if until_s == -INF else found

    # --- to be seen -----------------------------------------------------------------------------

    def explain(self, turn: Turn, job: Job) -> list[Reason]:
        """Why a job stands aside."""
        ends = known(turn.state)
        if ends is None or job.id not in ends.aside or job.id not in turn.state.queue:
            return []
        until_s = needed_until_s(turn.state, ends, job, turn.now)
        have = lasting(turn.state, ends, until_s)
        size, needs_s = job.preferred.size, until_s - turn.now
        reason = because("node_time_short", size=size, needs_s=needs_s, lasting=have)
        return [reason, *under_way(turn, job)]


def _drains(turn: Turn, ends: Ends) -> list[tuple[str, float]]:
    """Nodes that are up and were not told to drain yet, and when they are."""
    nodes, lead_s = turn.state.processors.nodes, turn.config.of(NodeOptions).end_lead_s
    return [
        (name, until_s - ends.lead_s(name, lead_s))
        for name, until_s in ends.until_s.items()
        if name not in ends.drained and name in nodes and nodes[name].up
    ]
