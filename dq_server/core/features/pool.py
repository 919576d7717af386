"""The pool: nodes that an engine is asked for, and that it gets back.

    AskNodes ─→ asked ─→ starting ─→ up ─→ draining ─→ left ─→ (ended)
                  │ TicketStarted ┘    │ NodeJoined     │ GiveNode
                  └ TicketRefused      └ TicketRevoked, or idle for idle_s

pool_policy.py says when to ask and when to give back, after each scheduling pass. This file keeps
the tickets (model/pool.py): each is in the state before the engine hears of it, and goes when the
engine says that it has ended; news of a ticket that has gone is answered by giving it back, so that
neither a repeated nor a late message leaks a node or uses one twice.

A node given back, or taken back by its engine, drains (features/draining.py) and leaves; then, or
when it is lost, its ticket is given back. A node that joins under a ticket that was given back is
drained at once. A refusal, and a node that never came up, make the next request to that queue wait,
longer each time (`retry_s`, `retry_max_s`); a node that joins ends that.

A node of the pool that a user drains stays: somebody wants to look at it. It counts against `max`
until `dq node remove`, or `resume`.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from dq_server.core.feature import Change, Feature, What, handles
from dq_server.core.model import events as ev
from dq_server.core.model.actions import AskNodes, GiveNode
from dq_server.core.model.ends import Ends, NodeOptions
from dq_server.core.model.errors import InvalidTransition, InvariantViolation
from dq_server.core.model.jobs import Job, JobState
from dq_server.core.model.pool import (
    KEEP_NOTES,
    ON_THE_WAY,
    AskedFor,
    Pool,
    PoolNote,
    PoolOptions,
    Ticket,
    TicketState,
)
from dq_server.core.model.processors import Node
from dq_server.core.model.reasons import Figure, Reason, because, declare
from dq_server.core.model.state import State
from dq_server.core.pool_policy import Ask, PoolView, decision_times, to_ask, to_give, to_renew
from dq_server.core.pool_queues import to_move
from dq_server.core.turn import Turn

TOOK_WEIGHT = 0.25  # of the latest start in the mean of how long nodes take
RETRY_DOUBLINGS = 20
GROWTH_ITERATIONS = 2  # that a job may do before nodes that it does not grow onto are spare

declare(
    pool_revoked="taken back by the engine{why}",
    pool_gone="its node is no longer part of the cluster",
    pool_unknown="the ticket was given back before",
    pool_has_ended="the engine ended it{why}",
    pool_has_refused="refused{why}; asked again after {retry_s:g} s",
    pool_queue_has_refused="queue {queue} refused{why}; it is asked again after {retry_s:g} s",
)


class Pooling(Feature):
    # --- what the engine says -------------------------------------------------------------------

    @handles(ev.TicketPending)
    def pending(self, turn: Turn, event: ev.TicketPending) -> None:
        """It may take a while: no plan counts on it any more."""
        ticket = _known(turn, event.ticket)
        if ticket is not None and ticket.state is TicketState.ASKED:
            ticket.pending = event.why or "no reason given"
            turn.schedule()

    @handles(ev.TicketStarted)
    def started_node(self, turn: Turn, event: ev.TicketStarted) -> None:
        """Granted: its node starts. Agents may be faster than engines: it may have joined."""
        ticket = _known(turn, event.ticket, event.node)
        if ticket is None:
            return
        pool = Pool.of(turn.state)
        other = pool.of_node(event.node) if event.node else None
        if event.node and ticket.node and ticket.node != event.node:
            raise InvalidTransition(
                f"ticket {event.ticket} is node {ticket.node}, not {event.node} as well"
            )
        if other and other[0] != event.ticket and other[1].state is not TicketState.LEFT:
            raise InvalidTransition(
                f"node {event.node} is that of ticket {other[0]}, not of {event.ticket} as well"
            )
        learned = bool(event.node) and not ticket.node  # an engine may say it later than the grant
        ticket.node = event.node or ticket.node
        lasts_s = turn.config.of(PoolOptions).lasts_s_of(ticket.queue)
        if event.until_s is not None:
            ticket.until_s = event.until_s
        elif ticket.until_s is None and lasts_s is not None:  # no later, until the engine says when
            ticket.until_s = turn.now + lasts_s
        if ticket.until_s is not None and ticket.node and ticket.state is not TicketState.LEFT:
            Ends.of(turn.state).learn(ticket.node, ticket.until_s, turn.now)
        if ticket.state is TicketState.ASKED:
            ticket.state, ticket.granted_s, ticket.pending = TicketState.STARTING, turn.now, ""
            learned = True
        if learned:
            self._capacity(turn)
            turn.schedule()

    @handles(ev.TicketRefused)
    def refused(self, turn: Turn, event: ev.TicketRefused) -> None:
        """It will not come."""
        pool, ticket = Pool.of(turn.state), _known(turn, event.ticket)
        if ticket is None:
            return
        if ticket.state in (TicketState.UP, TicketState.DRAINING):
            raise InvalidTransition(f"ticket {event.ticket} is {ticket.state}: not to be refused")
        del pool.tickets[event.ticket]
        if ticket.state is not TicketState.LEFT:
            _failed(turn, event.ticket, ticket.queue, event.why)
        turn.schedule()

    @handles(ev.TicketRevoked)
    def revoked(self, turn: Turn, event: ev.TicketRevoked) -> None:
        """Preempted, or its time is over: its jobs leave, and nothing new is granted there."""
        ticket = _known(turn, event.ticket)
        if ticket is None or ticket.state is TicketState.LEFT:
            return
        reason = because("pool_revoked", why=_after_colon(event.why))
        _note(turn, "revoke", event.ticket, reason)
        if ticket.state in ON_THE_WAY:
            _give(turn, event.ticket, reason)
        else:
            within_s = max(0.0, event.within_s)
            _drain(turn, ticket, event.why or "taken back", "the engine", within_s)
        turn.schedule()

    @handles(ev.TicketEnded)
    def ended_node(self, turn: Turn, event: ev.TicketEnded) -> None:
        """The engine has it no more: whatever still ran there is lost."""
        pool = Pool.of(turn.state)
        _check_number(pool, event.ticket)
        ticket = pool.tickets.pop(event.ticket, None)
        if ticket is None:
            return
        why = event.why or "the engine ended it"
        if ticket.state in ON_THE_WAY and not event.withdrawn:
            _failed(turn, event.ticket, ticket.queue, why)
        elif ticket.state is not TicketState.LEFT:
            _note(turn, "end", event.ticket, because("pool_has_ended", why=_after_colon(event.why)))
        node = _node(turn.state, ticket)
        if node is not None and not _taken_over(pool, ticket.node):
            turn.perform(ev.NodeLost(node.name, why))
        turn.schedule()

    # --- nodes that come and go -----------------------------------------------------------------

    def changed(self, turn: Turn, change: Change) -> None:
        match change.what:
            case What.CAPACITY:
                self._capacity(turn)
            case What.LOSING:  # whoever has a lost node still must not keep it for us
                known = turn.state.processors.nodes.get(change.node)
                if known is not None and known.up and change.reason is not None:
                    self._is_gone(turn, change.node, change.reason)
            case What.LEFT:
                self._is_gone(turn, change.node, because("pool_gone"))
            case What.PASSED:
                self._passed(turn)

    def _capacity(self, turn: Turn) -> None:
        """Nodes of granted tickets have joined; those of tickets given back must not be used."""
        if Pool.known(turn.state) is None:
            return
        pool, now = Pool.of(turn.state), turn.now
        withheld = turn.state.processors.withheld
        for ticket in pool.tickets.values():
            if ticket.state is TicketState.UP or ticket.state is TicketState.ASKED:
                continue
            node = _node(turn.state, ticket)
            if node is None:
                continue
            if ticket.state is TicketState.STARTING:
                ticket.state, ticket.joined_s = TicketState.UP, now
                pause, pool.last = pool.pause(ticket.queue), ticket.node
                pause.failures, pause.refused = 0, ""
                since_s = ticket.asked_s if ticket.granted_s is None else ticket.granted_s
                took_s, before_s = now - since_s, pool.took_s
                if before_s is not None:
                    took_s = before_s + TOOK_WEIGHT * (took_s - before_s)
                pool.took_s = took_s
                turn.schedule()
            elif not withheld.issuperset(node.processors) and not _taken_over(pool, ticket.node):
                _drain(turn, ticket, "given back before", "the pool", None)

    def _is_gone(self, turn: Turn, node: str, reason: Reason) -> None:
        if Pool.known(turn.state) is None:
            return
        found = Pool.of(turn.state).of_node(node)
        if found is not None and found[1].state in (TicketState.UP, TicketState.DRAINING):
            _give(turn, found[0], reason)

    # --- the policy -----------------------------------------------------------------------------

    def measured(self, turn: Turn, job: Job) -> None:
        """Whether the job would grow if it could may be known now."""
        if turn.config.of(PoolOptions).max and not turn.state.queue:
            turn.schedule()

    def _passed(self, turn: Turn) -> None:
        options, state = turn.config.of(PoolOptions), turn.state
        if not options.max and Pool.known(state) is None:
            return
        Pool.of(state).looked_s = turn.now
        _watch_idle(turn)
        _watch_growth(turn)
        view = PoolView(state, turn.config, options, turn.now)
        ask = to_ask(view)
        if ask is not None:
            _ask(turn, options, ask)
        else:
            moved = list(to_move(view.pool, options, view.stock, turn.now))
            for number, reason in (*to_give(view), *to_renew(view), *moved):
                _give_back(turn, number, reason)

    def deadline(self, turn: Turn) -> Iterable[float]:
        """When a node has been idle, or awaited, for long enough, or the engine is asked again."""
        if Pool.known(turn.state) is None or turn.state.paused:  # no pass is made
            return ()
        lead_s = turn.config.of(NodeOptions).end_lead_s
        # Not those after `now`: an event that makes no pass may have come just after the time.
        looked_s = Pool.of(turn.state).looked_s
        return decision_times(turn.state, turn.config.of(PoolOptions), lead_s, looked_s)

    # --- to be seen -----------------------------------------------------------------------------

    def check(self, state: State) -> None:
        if Pool.known(state) is None:
            return
        pool, nodes = Pool.of(state), state.processors
        alive = [
            t.node for t in pool.tickets.values() if t.node and t.state is not TicketState.LEFT
        ]
        if len(set(alive)) < len(alive):
            raise InvariantViolation(f"two tickets have one node: {alive}")
        if any(number >= pool.next_ticket for number in pool.tickets):
            raise InvariantViolation("a ticket was not counted")
        for number, ticket in pool.tickets.items():
            node = _node(state, ticket)
            if ticket.state is TicketState.UP and node is None:
                raise InvariantViolation(f"ticket {number} is up, its node {ticket.node} is not")
            if ticket.idle_s is not None and ticket.state is not TicketState.UP:
                raise InvariantViolation(f"ticket {number} is {ticket.state} and idle")
            if ticket.state in (TicketState.UP, *ON_THE_WAY) or ticket.node in alive:
                continue
            if node is not None and not nodes.withheld.issuperset(node.processors):
                raise InvariantViolation(f"node {node.name} of ticket {number} can be granted")


# --- tickets ---------------------------------------------------------------------------------


def _check_number(pool: Pool, number: int) -> None:
    if not 0 < number < pool.next_ticket:
        raise InvalidTransition(f"ticket {number} was never asked for")


def _known(turn: Turn, number: int, node: str = "") -> Ticket | None:
    """The ticket; None if it has gone or was given back: then the engine is told so again."""
    pool = Pool.of(turn.state)
    _check_number(pool, number)
    ticket = pool.tickets.get(number)
    if ticket is None:
        turn.actions.append(GiveNode(number, node, because("pool_unknown")))
    elif ticket.state is TicketState.LEFT:
        turn.actions.append(GiveNode(number, ticket.node or node, because("pool_unknown")))
    return ticket


def _node(state: State, ticket: Ticket) -> Node | None:
    """The ticket's node if it is up."""
    node = state.processors.nodes.get(ticket.node)
    return node if node is not None and node.up else None


def _taken_over(pool: Pool, node: str) -> bool:
    """Whether the node belongs to a ticket that was not given back."""
    found = pool.of_node(node)
    return found is not None and found[1].state not in (TicketState.LEFT, TicketState.DRAINING)


def _ask(turn: Turn, options: PoolOptions, ask: Ask) -> None:
    pool, now = Pool.of(turn.state), turn.now
    numbers = tuple(range(pool.next_ticket, pool.next_ticket + len(ask.queues)))
    pool.next_ticket += len(numbers)
    for number, queue in zip(numbers, ask.queues, strict=True):
        pool.tickets[number] = Ticket(options.shape, now, ask.reason, queue=queue)
        _note(turn, "ask", number, ask.reason)
    for job in ask.jobs:
        job.note(now, "pool", ask.reason)
        if job.spec.needs is not None:
            AskedFor.of(job).hoped = True
    for job in ask.passing:
        AskedFor.of(job).passing = True
    if ask.growth is not None:
        pool.growth = ask.growth
        AskedFor.of(turn.state.job(ask.growth.job)).grown_from = ask.growth.size
    turn.actions.append(AskNodes(options.shape, numbers, ask.reason))


def _give_back(turn: Turn, number: int, reason: Reason) -> None:
    """Give an idle node back, or withdraw the request for it; it leaves in its own time."""
    ticket = Pool.of(turn.state).tickets[number]
    if ticket.state is TicketState.LEFT:
        return  # for another reason, just now
    if ticket.state is not TicketState.UP:
        if ticket.state is TicketState.STARTING or reason.code == "pool_moved":
            _failed(turn, number, ticket.queue, reason.text)
        _give(turn, number, reason)
        return
    _note(turn, "drain", number, reason)
    _drain(turn, ticket, reason.text, "the pool", None)
    turn.changed(What.VACATED)  # it is empty already, and may go


def _drain(turn: Turn, ticket: Ticket, why: str, by: str, within_s: float | None) -> None:
    """The ticket's node, which is up, is to leave."""
    ticket.state, ticket.idle_s = TicketState.DRAINING, None
    with suppress(InvalidTransition):  # it is to leave already, and no later
        turn.perform(ev.DrainRequested(ticket.node, within_s, why, by, leaves=True))


def _give(turn: Turn, number: int, reason: Reason) -> None:
    """Nothing is on the ticket's node, or it has none: the engine gets it back."""
    ticket = Pool.of(turn.state).tickets[number]
    ticket.state, ticket.idle_s, ticket.pending = TicketState.LEFT, None, ""
    _note(turn, "give", number, reason)
    turn.actions.append(GiveNode(number, ticket.node, reason))
    turn.schedule()


def _failed(turn: Turn, number: int, queue: str, why: str) -> None:
    """A node did not come: its queue is left alone for a while, longer each time.

    Many refusals at once, of one request for many nodes, are one.
    """
    pool, now, options = Pool.of(turn.state), turn.now, turn.config.of(PoolOptions)
    pause = pool.pause(queue)
    if queue:
        pool.queues[queue] = pause
    pause.refused = why or "no reason given"
    if now >= pause.retry_s:
        wait_s = options.retry_s * 2.0 ** min(pause.failures, RETRY_DOUBLINGS)
        pause.failures += 1
        pause.retry_s = now + min(wait_s, options.retry_max_s)
    figures: dict[str, Figure] = {"why": _after_colon(why), "retry_s": pause.retry_s - now}
    if queue:
        _note(turn, "refused", number, because("pool_queue_has_refused", queue=queue, **figures))
    else:
        _note(turn, "refused", number, because("pool_has_refused", **figures))
    growth = pool.growth
    if growth is not None and growth.until_s is None:
        job = turn.state.jobs.get(growth.job)
        if job is not None:
            AskedFor.of(job).grown_from = 0
        pool.growth = None


def _note(turn: Turn, what: str, number: int, reason: Reason) -> None:
    notes = Pool.of(turn.state).notes
    notes.append(PoolNote(turn.now, what, number, reason))
    del notes[:-KEEP_NOTES]


def _after_colon(why: str) -> str:
    return f": {why}" if why else ""


# --- what changes with time ------------------------------------------------------------------


def _watch_idle(turn: Turn) -> None:
    """Since when is each node idle? A launcher that runs there needs it, too."""
    state = turn.state
    pool, idle = state.processors, set(state.processors.idle)
    launchers = {j.first_processor for j in state.active.values() if not j.launching.by_agents}
    for ticket in Pool.of(state).tickets.values():
        if ticket.state is not TicketState.UP:
            continue
        mine = pool.nodes[ticket.node].processors
        if idle.issuperset(mine) and launchers.isdisjoint(mine):
            ticket.idle_s = turn.now if ticket.idle_s is None else ticket.idle_s
        else:
            ticket.idle_s = None


def _watch_growth(turn: Turn) -> None:
    """Has the job for which nodes were asked had the chance to grow onto them?"""
    state, now = turn.state, turn.now
    pool = Pool.of(state)
    growth = pool.growth
    if growth is None:
        return
    job = state.active.get(growth.job)
    if (
        job is None
        or job.instance != growth.instance
        or job.state is not JobState.RUNNING
        or job.resize is not None
        or job.size != growth.size
        or (growth.until_s is not None and growth.until_s <= now)
    ):
        pool.growth = None
    elif growth.until_s is None and not pool.on_the_way():
        assert job.configuration is not None
        iteration_s = job.performance.known.get(job.configuration, 0.0)
        growth.until_s = now + GROWTH_ITERATIONS * iteration_s
