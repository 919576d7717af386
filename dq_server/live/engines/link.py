"""The server's side of an engine: what it is told, and what its news do.

The tickets go to the driver when the turn that changed them is committed. Its news are events of
the next tick. An agent that a ticket's node has started says which (NodeInfo.ticket): mostly it is
faster than the engine, whose word is then not waited for.
"""

from __future__ import annotations

import logging

from dq_client.base import messages as m
from dq_server.core.model import events as ev
from dq_server.core.model.errors import InvalidTransition, SchedulerError
from dq_server.core.model.pool import ON_THE_WAY, Pool, TicketState
from dq_server.core.model.state import State
from dq_server.live.context import Desk
from dq_server.live.engines.driver import Thread
from dq_server.live.engines.port import (
    EngineRefusal,
    News,
    Pending,
    Revoked,
    Started,
    TicketEnd,
    WantedTicket,
)

log = logging.getLogger("dq.server")

DISMISSED = "the cluster goes down"


class EngineLink:
    """See the module's docstring. `thread`: where the engine is driven."""

    def __init__(self, thread: Thread) -> None:
        self._thread = thread

    def start(self) -> None:
        """From now on the engine is asked."""
        self._thread.start()

    def tell(self, state: State) -> None:
        """The state is safe in the journal."""
        self._thread.want(tickets(state))

    def take_in(self, desk: Desk) -> None:
        """What the engine has said since the last time."""
        for news in self._thread.news():
            try:
                desk.apply(event_of(news, desk.now()))
            except SchedulerError as e:
                # Said of a ticket that has come further, or has gone, meanwhile.
                log.info("the engine's %s does not count: %s", news, e)

    def dismiss(self, desk: Desk) -> None:
        """The cluster goes down: `dq down` sees to it that the engine gets everything back."""
        for number in list(Pool.of(desk.state).tickets):
            desk.apply(ev.TicketEnded(number, DISMISSED, withdrawn=True))

    def stop(self) -> None:
        """The server ends."""
        self._thread.stop()


def tickets(state: State) -> dict[int, WantedTicket]:
    """All tickets of the state, as the driver wants them."""
    if Pool.known(state) is None:
        return {}
    return {
        number: WantedTicket(
            processors=ticket.shape.processors,
            asked=ticket.state is TicketState.ASKED,
            given=ticket.state is TicketState.LEFT,
            node=ticket.node,
            queue=ticket.queue,
        )
        for number, ticket in Pool.of(state).tickets.items()
    }


def event_of(news: News, now: float) -> ev.Event:
    """The event that the engine's word is."""
    match news:
        case Started():
            until_s = None if news.left_s is None else now + news.left_s
            return ev.TicketStarted(news.ticket, "", until_s)
        case Revoked():
            log.info("ticket %d is taken back: %s", news.ticket, news.why)
            return ev.TicketRevoked(news.ticket, news.left_s, news.why)
        case Pending():
            return ev.TicketPending(news.ticket, news.why)
        case EngineRefusal():
            log.warning("ticket %d is refused: %s", news.ticket, news.why)
            return ev.TicketRefused(news.ticket, news.why)
        case TicketEnd():
            log.info("ticket %d has ended: %s", news.ticket, news.why)
            return ev.TicketEnded(news.ticket, news.why)


def admit(desk: Desk, nodes: list[m.NodeInfo]) -> m.Error | None:
    """Let an agent's nodes come under their tickets; an error if one must not come."""
    for node in nodes:
        if not node.ticket:
            continue
        ticket = Pool.of(desk.state).tickets.get(node.ticket)
        if ticket is None or ticket.state is TicketState.LEFT:
            text = f"node {node.name} was given back: ticket {node.ticket} counts no more"
            return m.Error("refused", text)
        if ticket.node == node.name and ticket.state not in ON_THE_WAY:
            continue
        if ticket.node and ticket.node != node.name:  # asked for twice: an answer had got lost
            text = f"ticket {node.ticket} is node {ticket.node}, not {node.name} as well"
            return m.Error("refused", text)
        try:
            desk.apply(ev.TicketStarted(node.ticket, node.name))
        except InvalidTransition as e:  # the last node of this name has not been given up yet
            return m.Error("later", str(e))
    return None
