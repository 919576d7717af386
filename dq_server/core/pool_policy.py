"""The pool policy: when to ask for nodes, and when to give them back.

Ask when

* fewer nodes are there or on their way than `min`;
* waiting jobs need more processors than are idle or on their way. The queue is gone through in its
  order. A job counts if it could start once all nodes that may still be asked for have come: for
  one that has to wait for running jobs to end as well, nodes would only stand idle. Jobs behind
  such a one count if the start policy backfills and EASY's rule (planning/timeline.py) lets them;
* a waiting job needs memory, GPUs or features that what is idle does not have (pool_queues.py);
* a waiting job needs nodes that last longer than those that are there (features/node_ends.py);
* jobs that can be moved have processors on nodes whose time ends soon (model/ends.py);
* nobody waits, nothing is on its way, and a running malleable job would gain on its next size:
  measured there, predicted, or, where no other size was tried, if it scaled.

Give back a node that has been idle for `idle_s` and that none of these would ask for again, nor the
first job that has to wait for others to end.

Nothing flaps. What is asked for and what is kept follow from the same figures, so no node is given
back that would be asked for at once. Nodes for a reason that may turn out to be none (a job that
was to pass, a job that was to grow) are asked for once per job, or per size that it has. A node is
given back `idle_s` after it has joined at the earliest, and a request that still waits with the
engine is withdrawn no earlier than after the time that this would have taken.

This file reads the state and changes nothing; features/pool.py does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from math import nextafter

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.ends import Ends, Renewal, can_move, held_on, renewal, renewal_times
from dq_server.core.model.jobs import Job, JobState
from dq_server.core.model.points import may_resize
from dq_server.core.model.pool import (
    AskedFor,
    Growth,
    Pool,
    PoolOptions,
    Ticket,
    TicketState,
    arrivals,
    prospect,
)
from dq_server.core.model.reasons import Reason, because, declare
from dq_server.core.model.sizes import Configuration, RunTime
from dq_server.core.model.state import State
from dq_server.core.planning import INF, free, running
from dq_server.core.planning.timeline import Reservation, reserve
from dq_server.core.pool_queues import (
    NodeBudget,
    Stock,
    Unit,
    Want,
    granted_by_s,
    needs_s,
    never,
    units,
    wanted_for,
    with_hidden,
)

declare(
    pool_for_queue="{count} waiting jobs, job {head} first, need {needed} processors; {idle} are"
    " idle and {coming} on their way: {nodes} nodes more",
    pool_for_needs="{count} waiting jobs, job {head} first: idle processors lack memory, GPUs or"
    " features that they ask for; they need {lacking} processors elsewhere, {coming} are on their"
    " way: {nodes} nodes more",
    pool_min="{alive} nodes are there or on their way, min = {min}: {nodes} nodes more",
    pool_for_growth="job {job} would gain {gain_pct:.1f} % on {next_size} instead of {size}"
    " ({how}); {idle} are idle: {nodes} nodes more",
    pool_idle="idle for {idle_s:.0f} s (idle_s = {wanted_s:g}), {spare} processors are not needed",
    pool_early="its time ends in {left_s:.0f} s, and so does that of others that jobs are on; the"
    " pool is full: one more can come when it has left",
    pool_withdrawn="not granted for {waited_s:.0f} s, and no longer needed",
    pool_never_joined="granted {waited_s:.0f} s ago, and its node has not joined",
)


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask for nodes.

    queues   of each node
    jobs     that they are for; empty: for nobody in particular
    passing  those of them that are to pass the head of the queue
    growth   the nodes are for a running job that is to grow
    """

    queues: tuple[str, ...]
    reason: Reason
    jobs: tuple[Job, ...] = ()
    passing: tuple[Job, ...] = ()
    growth: Growth | None = None


@dataclass(slots=True)
class _Demand:
    """Processors that the waiting jobs need which can start without waiting for others to end."""

    processors: int = 0
    kept: int = 0  # needed by the first of the others
    lacking: int = 0  # of `processors`, those that have to be on new nodes, whatever is idle
    jobs: list[Job] = field(default_factory=list)
    passing: list[Job] = field(default_factory=list)


class PoolView:
    """The figures that asking and giving back are decided by, at one moment."""

    def __init__(
        self, state: State, config: SchedulerConfig, options: PoolOptions, now: float
    ) -> None:
        self.state, self.config, self.options, self.now = state, config, options, now
        self.pool = Pool.of(state)
        self.per_node = options.shape.processors
        room = NodeBudget.of(self.pool, options)
        self.room, self.open = room.nodes, room.open(self.pool, now)
        # What is promised to somebody later is neither free to be used nor to be given back.
        self.renewal: Renewal = renewal(state, config, options, now)
        self.idle = max(0, free(state, now, INF) - self.renewal.idle)
        self.coming = self.pool.on_the_way() + state.incoming()
        self.supply = self.idle + self.coming
        there: Iterable[Unit] = [Unit(INF, self.supply)]
        if options.queues:
            idle = free(state, now, INF)
            there = units(state, options, idle, self.renewal.nodes, now)
        self.stock = Stock(there, room)
        self.demand = self._demand()
        self.unmet, self.stock.unmet = self.stock.unmet, []
        if self.renewal.needed:
            self.stock.take(self.renewal.fresh, self.renewal.needed, partial=True)

    def _demand(self) -> _Demand:
        found = _Demand()
        if not self.state.queue:
            return found
        ahead: Reservation | None = None
        for job in self._line():
            wanted = wanted_for(self.state, job)
            if wanted is None:
                continue  # no node can hold it: it holds up nobody
            needed = wanted.processors
            fits = self.stock.take(job, needed, dry=True)
            if ahead is not None:
                if fits and self._passes(job, ahead):
                    self.stock.take(job, needed)
                    found.passing.append(job)
                    found.jobs.append(job)
                    found.processors += needed
            elif fits:
                self.stock.take(job, needed)
                found.jobs.append(job)
                found.processors += needed
                found.lacking += wanted.lacking
            elif never(self.state, self.options, job, needed):
                continue  # max was larger when it was submitted: it holds up nobody
            else:
                # What is idle is not enough for it, and is kept all the same: jobs end sooner than
                # planned, and nodes that would then have to start put the job off again and again.
                found.kept = needed
                if self.config.start == "fcfs":
                    break
                # Of the machine as it would be with all nodes that may be asked for.
                left = self.idle + self.room * self.per_node - found.processors
                ahead = reserve(self.state, self.state.ends, left, needed, self.now)
        return found

    def _line(self) -> Iterator[Job]:
        """Waiting jobs that nothing is promised to, in order."""
        line = with_hidden(self.state, self.state.line(self.now), self.now)
        if self.state.features.places(self.state):
            line = (job for job in line if not self.state.start_promised(job))
        return islice(line, self.options.depth)

    def _passes(self, job: Job, ahead: Reservation) -> bool:
        """Whether it may start before the job ahead, on nodes that are asked for now."""
        if AskedFor.of(job).passing:
            return False
        planned_s = job.spec.planned_s
        up_s = self.now + self.pool.start_takes_s(self.options)
        if planned_s is not None and up_s + planned_s <= ahead.end_by(self.now):
            return True
        if job.needed > ahead.extra_nodes:
            return False
        ahead.extra_nodes -= job.needed
        return True

    @property
    def spare(self) -> int:
        """Processors, idle or on their way, that nobody needs."""
        growth, waiting = self.pool.growth, self.demand.processors + self.demand.kept
        unused = self.stock.unused - self.demand.kept - (growth.more if growth else 0)
        return int(min(unused, self._unpromised() - waiting))

    def _unpromised(self) -> float:
        """Processors, once all that are on their way have come, that nobody holds or was promised
        for any time after that."""
        state, now = self.state, self.now
        if not state.has_promises:
            return INF
        there_s = max((at_s for at_s, _ in arrivals(state)), default=now)
        most = running(state, now).max(max(there_s, nextafter(now, INF)), INF)
        pending = self.pool.on_the_way() - sum(count for _, count in arrivals(state))
        return prospect(state) + pending - most

    def placed(self, wants: list[Want], *, partial: bool = False) -> tuple[str, ...]:
        """The queues to ask now for these, one for each node."""
        room = replace(self.open, free=dict(self.open.free), left={}, asked=[])
        for job, processors in wants:
            room.place(job, processors, partial=partial)
        return room.tickets()

    def alive(self) -> list[Ticket]:
        """Tickets of nodes that are there to stay, or will be."""
        gone = (TicketState.DRAINING, TicketState.LEFT)
        return [t for t in self.pool.tickets.values() if t.state not in gone]


def to_ask(view: PoolView) -> Ask | None:
    """What to ask the engine for now; None: nothing."""
    if not view.open.nodes:
        return None
    demand = view.demand
    missing, lacking = sum(count for _, count in view.unmet), demand.lacking - view.coming
    if lacking > 0 and lacking >= missing:
        queues = view.placed([(max(demand.jobs, key=needs_s), lacking)], partial=True)
        figures = {"count": len(demand.jobs), "head": demand.jobs[0].id, "coming": view.coming}
        reason = because("pool_for_needs", lacking=demand.lacking, nodes=len(queues), **figures)
        if queues:
            return Ask(queues, reason, tuple(demand.jobs), tuple(demand.passing))
    elif queues := view.placed(view.unmet):
        reason = because(
            "pool_for_queue",
            count=len(demand.jobs),
            head=demand.jobs[0].id,
            needed=demand.processors,
            idle=view.idle,
            coming=view.coming,
            nodes=len(queues),
        )
        return Ask(queues, reason, tuple(demand.jobs), tuple(demand.passing))
    renew = view.renewal
    if renew.reason is not None and (queues := view.placed(view.stock.unmet, partial=True)):
        return Ask(queues, renew.reason, renew.jobs)
    alive, least = len(view.alive()), view.options.min
    queues = view.placed([(None, max(0, least - alive) * view.per_node)], partial=True)
    if queues:
        return Ask(queues, because("pool_min", alive=alive, min=least, nodes=len(queues)))
    return _growth(view)


def _growth(view: PoolView) -> Ask | None:
    """Nodes for the running job that gains most by them; None: none does."""
    state, config = view.state, view.config
    if config.resize == "none" or not view.options.grow or view.coming or view.pool.growth:
        return None
    if state.head(view.now) is not None:
        return None
    least = max(view.options.gain, config.threshold)
    best: tuple[float, Job, Configuration, str] | None = None
    for job in _growable(state, config):
        found = _next_size(job, job.size + view.idle + view.open.nodes * view.per_node, least)
        if found is None or found[0].size - job.size <= view.idle:
            continue  # what is idle is enough: that is for the resize policy to decide
        target, gain, how = found
        if best is None or gain > best[0]:
            best = gain, job, target, how
    if best is None:
        return None
    gain, job, target, how = best
    more = target.size - job.size
    queues = view.placed([(job, more - view.idle)])
    reason = because(
        "pool_for_growth",
        job=job.id,
        size=job.size,
        next_size=target.size,
        gain_pct=100 * gain,
        how=how,
        idle=view.idle,
        nodes=len(queues),
    )
    return Ask(queues, reason, (job,), growth=Growth(job.id, job.instance, job.size, more))


def _growable(state: State, config: SchedulerConfig) -> Iterator[Job]:
    """Running jobs that would grow if they could, and for which nobody has asked at this size."""
    for job in state.active.values():
        if job.state is not JobState.RUNNING or job.settle or not may_resize(state, job):
            continue
        if AskedFor.of(job).grown_from == job.size:
            continue
        if job.spec.scalability is not None or job.performance.measured(config.samples):
            yield job


def _next_size(job: Job, size_max: int, least: float) -> tuple[Configuration, float, str] | None:
    """The smallest larger size that gains more than `least`, its gain, and how that is known."""
    data, current = job.performance, job.configuration
    assert current is not None
    for target in job.chain:
        if target.size <= current.size:
            continue
        if target.size > size_max or not data.allows(target):
            return None
        gain, how = _gain(job, current, target)
        if gain > least:
            return target, gain, how
    return None


def _gain(job: Job, current: Configuration, target: Configuration) -> tuple[float, str]:
    """Relative fall of the time of an iteration from one size to a larger one."""
    known, says = job.performance.known, job.spec.scalability
    if current in known and target in known:
        return 1 - known[target] / known[current], "measured"
    if says is not None:
        return 1 - says.ratio(target.size) / says.ratio(current.size), "as the job says"
    times_s = {at.size: time_s for at, time_s in known.items()}
    if len(times_s) < 2:
        return 1 - current.size / target.size, "if it scales: no other size was tried"
    model = RunTime.fitted(times_s)
    gain = 1 - model.time_s(target.size) / model.time_s(current.size)
    return gain, f"predicted from {len(times_s)} sizes"


def to_give(view: PoolView) -> list[tuple[int, Reason]]:
    """Tickets to give back now, with the reasons. Their nodes are idle, or have not joined."""
    given: list[tuple[int, Reason]] = []
    options, now, spare, per_node = view.options, view.now, view.spare, view.per_node
    # What some of the waiting jobs need has to be on new nodes, however much is idle.
    unclaimed = view.coming - view.demand.lacking
    alive, up = len(view.alive()), 0
    idle: list[tuple[float, int, int, Ticket]] = []
    for number, ticket in view.pool.tickets.items():
        if ticket.state is TicketState.UP:
            up += 1
        if ticket.idle_s is not None and ticket.idle_s + options.idle_s <= now:
            if ticket.node in view.renewal.nodes or ticket.node in view.stock.kept:
                continue  # it leaves soon anyway, or jobs count on it
            first = view.state.processors.nodes[ticket.node].processors[0]
            # Jobs are packed on the first processors: the last ones stay idle the longest.
            idle.append((ticket.idle_s, -first, number, ticket))
        elif ticket.granted_s is not None and ticket.state is TicketState.STARTING:
            if ticket.granted_s + options.start_within_s <= now:
                waited_s = now - ticket.granted_s
                given.append((number, because("pool_never_joined", waited_s=waited_s)))
                alive, spare, unclaimed = alive - 1, spare - per_node, unclaimed - per_node
        elif (
            ticket.state is TicketState.ASKED
            and number not in view.stock.kept
            and _overdue(view, ticket)
            and min(spare, unclaimed) >= per_node
            and alive > options.min
        ):
            waited_s = now - ticket.asked_s
            given.append((number, because("pool_withdrawn", waited_s=waited_s)))
            alive, spare, unclaimed = alive - 1, spare - per_node, unclaimed - per_node
    for since_s, _, number, ticket in sorted(idle, key=lambda found: found[:3]):
        count = len(view.state.processors.nodes[ticket.node].processors)
        useless = ticket.node in view.renewal.useless
        if (count > spare and not useless) or up <= options.min:
            continue
        for_s = now - since_s
        reason = because("pool_idle", idle_s=for_s, wanted_s=options.idle_s, spare=spare)
        given.append((number, reason))
        up, spare = up - 1, spare - (0 if useless else count)
    return given


def to_renew(view: PoolView) -> list[tuple[int, Reason]]:
    """The ticket of a node to give up early, so that there is room for one that lasts longer.

    One at a time, and only if the jobs there can go on without it.
    """
    renew, tickets = view.renewal, view.pool.tickets
    if view.room or not renew.needed or renew.useless or view.supply >= renew.needed:
        return []
    if any(t.state is not TicketState.UP for t in tickets.values()):
        return []  # there is room soon
    node_of, ends = view.state.processors.node_of, Ends.of(view.state)
    for name in sorted(renew.nodes, key=lambda name: (ends.until_s[name], name)):
        found = view.pool.of_node(name)
        if found is None or name in ends.drained:
            continue
        held = held_on(view.state, [name])
        jobs = [view.state.active[job] for job in held]
        fits = (
            can_move(job) and job.spec.configurations[0].size <= job.size - held[job.id]
            for job in jobs
        )
        if all(fits) and all(node_of[p] != name for job in jobs for p in job.spawned):
            left_s = ends.until_s[name] - view.now
            return [(found[0], because("pool_early", left_s=left_s))]
    return []


def _overdue(view: PoolView, ticket: Ticket) -> bool:
    """Whether it is still asked for although a node would have come and gone meanwhile."""
    return granted_by_s(view.pool, view.options, ticket) + view.options.idle_s <= view.now


def decision_times(
    state: State, options: PoolOptions, lead_s: float, after_s: float
) -> Iterator[float]:
    """When time alone may make something due; only times after `after_s`."""
    pool = Pool.of(state)
    yield from renewal_times(state, options, lead_s, after_s)
    for ticket in pool.tickets.values():
        due_s = None
        if ticket.idle_s is not None:
            due_s = ticket.idle_s + options.idle_s
        elif ticket.state is TicketState.ASKED:
            due_s = granted_by_s(pool, options, ticket)
            if due_s <= after_s or not (ticket.pending and options.queues):
                due_s += options.idle_s
        elif ticket.state is TicketState.STARTING and ticket.granted_s is not None:
            due_s = ticket.granted_s + options.start_within_s
        if due_s is not None and due_s > after_s:
            yield due_s
    for pause in (pool, *pool.queues.values()):
        if pause.retry_s > after_s:
            yield pause.retry_s
    if (
        pool.growth is not None
        and pool.growth.until_s is not None
        and pool.growth.until_s > after_s
    ):
        yield pool.growth.until_s
