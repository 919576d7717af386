"""Queues of a pool: which of them a node is requested from, and what its node is good for.

A batch system may have several queues (partitions), with limits and times of their own. For each
job nodes come from the first queue of the file that has room, unless

* its nodes do not last as long as a job needs that cannot be moved: it is passed over;
* its nodes do not last as long as another job plans to run: it comes after those that do;
* it has failed lately: it is left alone until its pause is over. So it is if it does not grant a
  request within the time that nodes are expected to take, and a later queue may: the request moves
  there. None moves back, so that it keeps its place in the end.

A job gets all the nodes that it lacks, from several queues if need be, or none: some of them would
only stand idle. A pool without queues has a nameless one, in which everything fits.

Jobs that ask for memory, GPUs or features (`wanted_for`). All nodes of a pool are of one shape, and
what one of them has beside processors is known when the first has joined. From then on

* a job takes up as many processors of such nodes as it needs to find its memory and GPUs there,
  though some of them stay idle beside it;
* one that stands aside because what is idle is of no use to it (features/placement.py) wants new
  nodes for the ranks that find no room;
* one of which such a node holds no rank is asked for once, because nodes may have become others
  since, and holds up nobody after that.

This file reads the state and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import ceil

from dq_server.core.model.ends import INF, MARGIN_S, Ends, can_move
from dq_server.core.model.jobs import Job
from dq_server.core.model.placing import Placed, capable, room
from dq_server.core.model.pool import (
    ON_THE_WAY,
    AskedFor,
    Pool,
    PoolOptions,
    PoolQueue,
    Ticket,
    arrivals,
    possible,
)
from dq_server.core.model.reasons import Reason, because, declare
from dq_server.core.model.state import State
from dq_server.core.turn import Turn

Want = tuple[Job | None, int]  # processors on new nodes, for a job or for nobody in particular

declare(
    pool_coming="{coming} processors of the pool are on their way, the first in about {in_s:.0f} s",
    pool_pending="{nodes} nodes were asked for and are not granted yet: {why}",
    pool_refused="the pool got no node: {why}; it asks again in {in_s:.0f} s",
    pool_full="the pool has {nodes} nodes, max = {max}: no more are asked for",
    pool_queue_refused="queue {queue} gave no node: {why}; it is asked again in {in_s:.0f} s",
    pool_queue_full="queue {queue} has {nodes} nodes, max = {max}: no more are asked for there",
    pool_queue_short="queue {queue} is passed over: its nodes last {lasts_s:.0f} s, the job cannot"
    " be moved and needs {needs_s:.0f} s",
    pool_moved="not granted for {waited_s:.0f} s in queue {queue}, and queue {other} has room",
    pool_queue_pending="{nodes} nodes were asked for in queue {queue} and are not granted yet:"
    " {why}",
)


def needs_s(job: Job | None) -> float:
    """Seconds that its nodes have to last; 0: it can go on elsewhere, or does not say."""
    if job is None or can_move(job) or job.spec.protection is not None:
        return 0.0
    return job.spec.planned_s or 0.0


def usable_s(queue: PoolQueue) -> float:
    """Seconds that a job may run on a node of the queue."""
    return INF if queue.lasts_s is None else queue.lasts_s - MARGIN_S


def preferred(queues: Iterable[PoolQueue], job: Job | None) -> list[PoolQueue]:
    """Queues that a job's nodes may come from, the best first."""
    least_s = needs_s(job)
    wished_s = 0.0 if job is None else job.spec.planned_s
    if wished_s is None:
        assert job is not None
        wished_s = 0.0 if can_move(job) else INF
    found = [q for q in queues if usable_s(q) >= least_s]
    return sorted(found, key=lambda q: usable_s(q) < wished_s)  # else in the file's order


def room_in(pool: Pool, options: PoolOptions) -> dict[str, int]:
    """Nodes that may still be requested from each queue, as far as its own limit goes."""
    used: dict[str, int] = {}
    for ticket in pool.tickets.values():
        used[ticket.queue] = used.get(ticket.queue, 0) + 1
    return {
        q.name: max(0, (options.max if q.max is None else q.max) - used.get(q.name, 0))
        for q in options.asked
    }


@dataclass(slots=True)
class NodeBudget:
    """Nodes that may still be requested; `place` takes some.

    free   nodes, by queue
    nodes  of all queues together
    left   processors of nodes that were placed, and that nobody has yet
    asked  queues of the nodes that were placed
    """

    queues: tuple[PoolQueue, ...]
    free: dict[str, int]
    nodes: int
    per_node: int
    left: dict[str, int] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    @staticmethod
    def of(pool: Pool, options: PoolOptions) -> NodeBudget:
        """What the limits of pool and queues allow now."""
        free, nodes = room_in(pool, options), max(0, options.max - len(pool.tickets))
        return NodeBudget(
            options.asked, free, min(nodes, sum(free.values())), options.shape.processors
        )

    def open(self, pool: Pool, now: float) -> NodeBudget:
        """The same without queues that are paused; nothing has been placed."""
        free = {name: n for name, n in self.free.items() if pool.pause(name).retry_s <= now}
        queues = tuple(q for q in self.queues if q.name in free)
        return NodeBudget(queues, free, min(self.nodes, sum(free.values())), self.per_node)

    def place(
        self, job: Job | None, processors: int, *, partial: bool = False, dry: bool = False
    ) -> bool:
        """Take nodes for all of these; False, and nothing is taken, if there is too little room.

        partial  then take as many as there are
        dry      take nothing in any case
        """
        plan: list[tuple[str, int, int]] = []
        nodes_left = self.nodes
        for queue in preferred(self.queues, job):
            if processors <= 0:
                break
            before = min(self.left.get(queue.name, 0), processors)
            lacking = processors - before
            nodes = min(self.free[queue.name], nodes_left, ceil(lacking / self.per_node))
            got = min(lacking, nodes * self.per_node)
            processors, nodes_left = lacking - got, nodes_left - nodes
            plan.append((queue.name, nodes, nodes * self.per_node - got - before))
        if dry or (processors > 0 and not partial):
            return processors <= 0
        for name, nodes, left in plan:
            self.free[name] -= nodes
            self.nodes -= nodes
            self.left[name] = self.left.get(name, 0) + left
            self.asked += [name] * nodes
        return processors <= 0

    def tickets(self) -> tuple[str, ...]:
        """The queue of each node that was placed; those of one queue in a row."""
        order = {queue.name: k for k, queue in enumerate(self.queues)}
        return tuple(sorted(self.asked, key=order.__getitem__))


@dataclass(slots=True)
class Unit:
    """Processors that are idle or on their way: of a node, or of a ticket; None: of any."""

    lasts_s: float
    processors: int
    of: str | int | None = None


def units(
    state: State, options: PoolOptions, idle: int, leaving: Iterable[str], now: float
) -> Iterator[Unit]:
    """What `idle` usable processors, and the nodes on their way, are good for.

    leaving  nodes whose time ends soon
    """
    ends, node_of, without = Ends.known(state) or Ends(), state.processors.node_of, {*leaving}
    found: dict[str, int] = {}
    for p in state.processors.idle:
        if node_of[p] not in without:
            found[node_of[p]] = found.get(node_of[p], 0) + 1
    for name in sorted(found, key=lambda name: ends.usable_until_s(name)):
        yield Unit(ends.usable_until_s(name) - now, min(idle, found[name]), name)
        idle -= min(idle, found[name])
    lasts_s = {q.name: usable_s(q) for q in options.queues}
    for number, ticket in Pool.of(state).tickets.items():
        if ticket.state in ON_THE_WAY:
            yield Unit(lasts_s.get(ticket.queue, INF), ticket.shape.processors, number)
    yield Unit(INF, state.incoming())


class Stock:
    """What is idle, on its way or may be requested, handed out to jobs in their order.

    kept   nodes and tickets that jobs count on, and how many seconds they have to last for them
    unmet  what has to be requested for them
    """

    def __init__(self, there: Iterable[Unit], room: NodeBudget) -> None:
        self._there = sorted(there, key=lambda unit: unit.lasts_s)
        self._room = room
        self.kept: dict[str | int | None, float] = {}
        self.unmet: list[Want] = []

    @property
    def unused(self) -> int:
        """Processors, idle or on their way, that were not handed out."""
        return sum(unit.processors for unit in self._there)

    def take(
        self, job: Job | None, processors: int, *, partial: bool = False, dry: bool = False
    ) -> bool:
        """Hand out so many, of what lasts the shortest and long enough first; see Room.place."""
        least_s, taken, rest = needs_s(job), list[tuple[Unit, int]](), processors
        for unit in self._there:
            count = min(rest, unit.processors) if unit.lasts_s >= least_s else 0
            if count:
                taken.append((unit, count))
                rest -= count
        fits = self._room.place(job, rest, partial=partial, dry=dry)
        if dry or not (fits or partial):
            return fits
        for unit, count in taken:
            unit.processors -= count
            self.kept[unit.of] = max(least_s, self.kept.get(unit.of, 0.0))
        if rest:
            self.unmet.append((job, rest))
        return fits


def granted_by_s(pool: Pool, options: PoolOptions, ticket: Ticket) -> float:
    """Until when a request waits for its queue if another one may grant it."""
    return ticket.asked_s + max(pool.start_takes_s(options), options.start_s)


def to_move(
    pool: Pool, options: PoolOptions, stock: Stock, now: float
) -> Iterator[tuple[int, Reason]]:
    """Tickets to withdraw because a later queue may grant them sooner, with the reasons."""
    if not options.queues:
        return
    waiting = {t.queue for t in pool.tickets.values() if t.pending}
    free, names = room_in(pool, options), [q.name for q in options.queues]
    for number, ticket in pool.tickets.items():
        if not ticket.pending or granted_by_s(pool, options, ticket) > now:
            continue
        least_s = stock.kept.get(number, 0.0)
        later = names.index(ticket.queue) + 1 if ticket.queue in names else len(names)
        for other in options.queues[later:]:
            paused = pool.pause(other.name).retry_s > now or other.name in waiting
            if not paused and free[other.name] and usable_s(other) >= least_s:
                free[other.name] -= 1
                figures = {"queue": ticket.queue, "other": other.name}
                yield number, because("pool_moved", waited_s=now - ticket.asked_s, **figures)
                break


def under_way(turn: Turn, job: Job) -> list[Reason]:
    """What the pool does for a job that waits."""
    options, state, now = turn.config.of(PoolOptions), turn.state, turn.now
    if not options.max:
        return []
    pool, reasons = Pool.of(state), list[Reason]()
    if arriving := arrivals(state):
        coming = sum(count for _, count in arriving)
        in_s = max(0.0, arriving[0][0] - now)
        reasons.append(because("pool_coming", coming=coming, in_s=in_s))
    reasons += _why_none(pool, options, job, now)
    pending = [t for t in pool.tickets.values() if t.pending and not options.queues]
    if pending:
        reasons.append(because("pool_pending", nodes=len(pending), why=pending[0].pending))
    if pool.refused and pool.retry_s > now:
        reasons.append(because("pool_refused", why=pool.refused, in_s=pool.retry_s - now))
    if len(pool.tickets) >= options.max:
        reasons.append(because("pool_full", nodes=len(pool.tickets), max=options.max))
    return reasons


def _why_none(pool: Pool, options: PoolOptions, job: Job, now: float) -> Iterator[Reason]:
    """Why no node comes from some of the queues, in the file's order."""
    free = room_in(pool, options)
    for queue in options.queues:
        name, pause = queue.name, pool.pause(queue.name)
        mine = [t for t in pool.tickets.values() if t.queue == name]
        waiting = [t.pending for t in mine if t.pending]
        if waiting:
            yield because("pool_queue_pending", nodes=len(waiting), queue=name, why=waiting[0])
        if usable_s(queue) < needs_s(job):
            assert queue.lasts_s is not None
            figures = {"lasts_s": queue.lasts_s, "needs_s": needs_s(job)}
            yield because("pool_queue_short", queue=name, **figures)
        elif pause.refused and pause.retry_s > now:
            in_s = pause.retry_s - now
            yield because("pool_queue_refused", queue=name, why=pause.refused, in_s=in_s)
        elif queue.max is not None and not free[name]:
            yield because("pool_queue_full", queue=name, nodes=len(mine), max=queue.max)


def lasting(options: PoolOptions, seconds: float) -> int:
    """Processors of all nodes of the queues on which a job may run for so long."""
    return options.processors_of(q for q in options.queues if usable_s(q) >= seconds)


def never(state: State, options: PoolOptions, job: Job, processors: int) -> bool:
    """Whether the pool can never have so many for a job."""
    if options.queues and processors > lasting(options, needs_s(job)):
        return True
    return processors > options.processors and processors > possible(state, options)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Processors for a waiting job.

    processors  that it takes up in all
    lacking     those of them that have to be on new nodes, whatever is idle
    """

    processors: int
    lacking: int = 0


def wanted_for(state: State, job: Job) -> Wanted | None:
    """None: nothing, no node of the pool can hold it."""
    needs, size = job.spec.needs, job.needed
    if needs is None:
        return Wanted(size)
    last, each = state.processors.nodes.get(Pool.of(state).last), 1.0
    if last is not None:
        ranks = capable(last, needs)
        if not ranks:
            return None if AskedFor.of(job).hoped else Wanted(size, size)
        each = len(last.processors) / ranks
    lacking = size - room(state, job) if job.id in hidden(state) else 0
    return Wanted(ceil(size * each), ceil(max(0, lacking) * each))


def hidden(state: State) -> list[int]:
    """Waiting jobs that find enough idle processors, but not where they can use them."""
    return Placed.of(state).hidden if Placed.known(state) is not None else []


def with_hidden(state: State, line: Iterable[Job], now: float) -> Iterable[Job]:
    """The queue with those jobs, which policies do not see, in their places."""
    seen = {*hidden(state)}
    if "Ends" in state.records:
        seen -= set(Ends.of(state).aside)  # model/ends.py asks for these
    if not seen:
        return line
    seen |= {job.id for job in line}
    return [job for job in state.ordered(state, now) if job.id in seen]
