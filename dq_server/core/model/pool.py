"""Nodes that are asked for and given back: what is known of each, and what users set.

Every node of the pool has a *ticket*: the number under which an engine (a batch system, a cloud, a
simulation) was asked for it. A ticket is in the state before the engine hears of it, and stays
there until the engine says that it has ended, so that none is forgotten or used for two nodes. Its
states are drawn in features/pool.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from dq_server.core.model.errors import ConfigError
from dq_server.core.model.options import Options
from dq_server.core.model.reasons import Reason
from dq_server.core.model.records import Record
from dq_server.core.model.state import State

KEEP_NOTES = 50
NODES_MAX = 100_000


class TicketState(StrEnum):
    """See the picture in features/pool.py."""

    ASKED = "asked"  # the engine has not granted it; see Ticket.pending
    STARTING = "starting"  # it is granted, its node has not joined
    UP = "up"  # its node has joined
    DRAINING = "draining"  # its node is to leave: given back, or taken back by the engine
    LEFT = "left"  # given back; the engine has not said that it has ended


ON_THE_WAY = frozenset({TicketState.ASKED, TicketState.STARTING})


@dataclass(frozen=True, slots=True)
class Shape:
    """What is asked for: a node like this.

    processors  it brings
    """

    processors: int = 1


@dataclass(frozen=True, slots=True)
class PoolQueue:
    """A queue of the engine that nodes are requested from.

    name     on tickets and in messages; empty: that of a pool without queues
    max      nodes at most, as in PoolOptions; None: as many as the pool
    lasts_s  how long its nodes stay; None: as long as they are wanted
    """

    name: str = ""
    max: int | None = None
    lasts_s: float | None = None


@dataclass(frozen=True, slots=True)
class PoolOptions(Options):
    """How many nodes are asked for, and when they are given back. The table is [pool].

    min             nodes that are kept even if no job needs them
    max             nodes at most, those on their way and on their way out included; 0: no pool
    idle_s          how long a node must have been idle before it is given back
    shape           of a node, { processors = 1 }
    start_s         expected time from request to join; measured once a node has joined
    start_within_s  a granted node that has not joined after this time is given back
    retry_s         how long after a refusal the engine is asked again; doubled each time
    retry_max_s     until it is this long
    lasts_s         how long the engine leaves a node with the pool; None: as long as it is wanted
    depth           waiting jobs, from the head of the queue on, that nodes are asked for
    grow            also request nodes on which running jobs can grow
    gain            relative gain of an iteration's time that such a node must promise
    queues          of the engine, the preferred one first: [{ name, max, lasts_s }]; a cluster
                    file has them as [[slurm]] or [[grid_engine]] tables
    """

    table = "pool"

    min: int = 0
    max: int = 0
    idle_s: float = 300.0
    shape: Shape = Shape()
    start_s: float = 120.0
    start_within_s: float = 1800.0
    retry_s: float = 10.0
    retry_max_s: float = 600.0
    lasts_s: float | None = None
    depth: int = 100
    grow: bool = True
    gain: float = 0.1
    queues: tuple[PoolQueue, ...] = ()

    @property
    def asked(self) -> tuple[PoolQueue, ...]:
        """The queues, or a nameless one in their place."""
        return self.queues or (PoolQueue(),)

    @property
    def processors(self) -> int:
        """What all nodes together would have."""
        return self.processors_of(self.asked)

    def processors_of(self, queues: Iterable[PoolQueue]) -> int:
        """What all nodes of these queues together would have."""
        nodes = sum(self.max if q.max is None else q.max for q in queues)
        return min(self.max, nodes) * self.shape.processors

    def lasts_s_of(self, queue: str) -> float | None:
        """How long a node of a ticket's queue stays; None: as long as it is wanted."""
        return next((q.lasts_s for q in self.queues if q.name == queue), self.lasts_s)

    def validate(self) -> None:
        if not 0 <= self.max <= NODES_MAX:
            raise ConfigError(f"[pool] max = {self.max}: from 0 to {NODES_MAX} nodes")
        if not 0 <= self.min <= self.max:
            raise ConfigError(f"[pool] min = {self.min}: from 0 to max = {self.max} nodes")
        if not 1 <= self.shape.processors <= NODES_MAX:
            raise ConfigError(
                f"[pool] shape: {self.shape.processors} processors: from 1 to {NODES_MAX}"
            )
        for name in ("idle_s", "start_s", "start_within_s", "retry_s", "retry_max_s"):
            value = getattr(self, name)
            least = 0.0 if name in ("idle_s", "start_s") else 1.0
            if not least <= value <= 365 * 86400:
                raise ConfigError(f"[pool] {name} = {value}: from {least:g} s to a year")
        if self.lasts_s is not None and not 1.0 <= self.lasts_s <= 365 * 86400:
            raise ConfigError(f"[pool] lasts_s = {self.lasts_s}: from 1 s to a year")
        if self.retry_max_s < self.retry_s:
            raise ConfigError(
                f"[pool] retry_max_s = {self.retry_max_s:g} is less than retry_s = {self.retry_s:g}"
            )
        if self.depth < 1:
            raise ConfigError(f"[pool] depth = {self.depth}: at least the job at the head")
        if not 0 <= self.gain < 1:
            raise ConfigError(f"[pool] gain = {self.gain}: a relative gain from 0 to below 1")
        self._check_queues()

    def _check_queues(self) -> None:
        names = [q.name for q in self.queues]
        if len(set(names)) < len(names) or "" in names:
            raise ConfigError(f"[pool] queues = {names}: each needs a name of its own")
        for q in self.queues:
            if q.max is not None and not 1 <= q.max <= NODES_MAX:
                raise ConfigError(f"queue {q.name}: max = {q.max}: from 1 to {NODES_MAX} nodes")
            if q.lasts_s is not None and not 1.0 <= q.lasts_s <= 365 * 86400:
                raise ConfigError(f"queue {q.name}: lasts_s = {q.lasts_s}: from 1 s to a year")
        if self.min * self.shape.processors > self.processors:
            nodes = self.processors // self.shape.processors
            raise ConfigError(f"[pool] min = {self.min}: its queues have {nodes} nodes at most")


@dataclass(slots=True)
class Ticket:
    """A node that was asked for. Times in seconds."""

    shape: Shape
    asked_s: float
    reason: Reason
    state: TicketState = TicketState.ASKED
    node: str = ""  # its name, from STARTING on
    joined_s: float | None = None  # when its node came up, from UP on
    granted_s: float | None = None  # when it became STARTING
    idle_s: float | None = None  # since when all of its processors are idle; only if UP
    pending: str = ""  # why the engine keeps it waiting; only if ASKED
    until_s: float | None = None  # when its time ends, as the engine says; None: it has not said
    queue: str = ""  # that it was requested from


@dataclass(slots=True)
class Growth:
    """Nodes were asked for so that a running job can grow: they are kept until it had the chance.

    until_s  when it will have had it; None: the nodes are still on their way
    """

    job: int
    instance: int
    size: int  # that it has
    more: int  # processors that it needs beside those
    until_s: float | None = None


@dataclass(frozen=True, slots=True)
class PoolNote:
    """A decision: what was done with a ticket, when and why."""

    time_s: float
    what: str
    ticket: int
    reason: Reason


@dataclass(slots=True)
class Pause:
    """How long a queue is left alone, after failures in a row."""

    failures: int = 0  # refused, or never up, since its last node came up
    retry_s: float = 0.0  # it is not asked again before
    refused: str = ""  # why it refused last; empty: a node has come up since


@dataclass(slots=True)
class Pool(Pause, Record, key="Pool"):
    """Of the state. The pause is that of a pool without queues."""

    tickets: dict[int, Ticket] = field(default_factory=dict)  # in the order of asking
    next_ticket: int = 1
    took_s: float | None = None  # how long nodes take to join: a sliding mean
    queues: dict[str, Pause] = field(default_factory=dict)  # of those that have failed
    growth: Growth | None = None
    looked_s: float = 0.0  # when the policy last looked: what is due by then has been done
    last: str = ""  # the node that joined last: what it has, others will have; empty: none has
    notes: list[PoolNote] = field(default_factory=list)  # the last KEEP_NOTES decisions

    def pause(self, queue: str) -> Pause:
        """Of the queue; of one that has never failed a new one."""
        return self.queues.get(queue, Pause()) if queue else self

    def on_the_way(self) -> int:
        """Processors that were asked for and have not joined."""
        return sum(t.shape.processors for t in self.tickets.values() if t.state in ON_THE_WAY)

    def of_node(self, node: str) -> tuple[int, Ticket] | None:
        """The ticket of the node of this name that is not given back yet, or else was last."""
        found = [(n, t) for n, t in self.tickets.items() if t.node == node]
        return next((f for f in found if f[1].state is not TicketState.LEFT), None) or (
            found[-1] if found else None
        )

    def start_takes_s(self, options: PoolOptions) -> float:
        """How long a node takes from being asked for to joining."""
        return options.start_s if self.took_s is None else self.took_s


@dataclass(slots=True)
class AskedFor(Record, key="AskedFor"):
    """Of a job: what nodes were asked for that it need not have used. It is done once each."""

    grown_from: int = 0  # its size when they were to let it grow
    passing: bool = False  # they were to let it pass the head of the queue
    hoped: bool = False  # it asks for memory, GPUs or features, which they might have


def arrivals(state: State) -> list[tuple[float, int]]:
    """(expected s, processors) of the nodes on their way, ascending; not of those that are pending.

    Asked in every pass: most states have no pool at all.
    """
    pool = Pool.known(state)
    if pool is None or not pool.tickets:
        return []
    takes_s = pool.start_takes_s(state.options(PoolOptions))
    return sorted(
        ((t.asked_s if t.granted_s is None else t.granted_s) + takes_s, t.shape.processors)
        for t in pool.tickets.values()
        if t.state in ON_THE_WAY and not t.pending
    )


def possible(state: State, options: PoolOptions) -> int:
    """Processors that there would be with as many nodes of the pool as it may have.

    Nodes that do not belong to it count if they are up.
    """
    processors = state.processors
    if not options.max:
        return processors.capacity
    mine = [t.node for t in Pool.of(state).tickets.values() if t.state is TicketState.UP]
    have = sum(processors.returning(processors.nodes[name].processors) for name in mine)
    return processors.capacity - have + max(have, options.processors)


def prospect(state: State) -> int:
    """Processors on nodes that are up or on their way: what plans for the future may count on."""
    return state.processors.capacity + sum(count for _, count in arrivals(state))
