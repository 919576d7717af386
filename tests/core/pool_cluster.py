"""A cluster whose nodes come from an engine that a test plays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dq_server.core.model import events as ev
from dq_server.core.model.actions import Action, AskNodes, GiveNode, NodeEmptied
from dq_server.core.model.pool import Pool, PoolOptions, Shape, Ticket, TicketState
from tests.core.cluster import Cluster


class PoolCluster(Cluster):
    """Nodes that are to leave leave, those given back end; what is asked for waits for `grant`."""

    def __init__(self, *, fixed: int = 0, processors: int = 1, config: Any = None, **pool: Any):
        options = PoolOptions(shape=Shape(processors), **pool)
        self.asked: list[tuple[float, int]] = []  # when which ticket
        self.given: list[tuple[float, int]] = []
        super().__init__(fixed, pool=options, **(config or {}))

    def do(self, event: ev.Event, *, vacate: bool = True) -> list[Action]:
        actions = super().do(event, vacate=vacate)
        for action in actions:
            if isinstance(action, AskNodes):
                self.asked += [(self.now, number) for number in action.tickets]
            elif isinstance(action, GiveNode):
                self.given.append((self.now, action.ticket))
                self.do(ev.TicketEnded(action.ticket))
            elif isinstance(action, NodeEmptied):
                self.do(ev.NodeLeft(action.node))
        return actions

    @property
    def pool(self) -> Pool:
        return Pool.of(self.scheduler.state)

    def tickets(self, state: TicketState) -> list[int]:
        return [n for n, t in self.pool.tickets.items() if t.state is state]

    def ticket(self, number: int) -> Ticket:
        return self.pool.tickets[number]

    def grant(self, numbers: Sequence[int] | None = None, *, join: bool = True) -> None:
        """What was asked for starts, and joins."""
        for number in self.tickets(TicketState.ASKED) if numbers is None else numbers:
            self.do(ev.TicketStarted(number, f"p{number}"))
            if join:
                self.join(number)

    def join(self, number: int) -> None:
        self.do(ev.NodeJoined(f"p{number}", self.ticket(number).shape.processors))

    def wait(self, seconds: float) -> None:
        """Time passes, with a tick whenever the scheduler wants one."""
        end_s = self.now + seconds
        for _ in range(3000):  # a late profile looks every second
            at_s = self.scheduler.next_wakeup(self.now)
            if at_s is None or at_s > end_s:
                self.now = end_s
                return
            self.now = max(self.now, at_s)
            self.do(ev.Tick())
        raise AssertionError("the scheduler wants ever more ticks")

    def whys(self) -> list[str]:
        return [a.reason.code for a in self.log if isinstance(a, AskNodes | GiveNode)]
