"""Processors that are to become empty (order Vacate), until they are.

Either some ranks of a running job retire: the order names their processes. Or the job is over, and
whatever it has here ends.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dq_client import messages as m
from dq_client.agent import tree

if TYPE_CHECKING:
    from dq_client.agent.agent import Agent

log = logging.getLogger("dq.agent")

LEAVE_WITHIN_S = 30.0  # for retiring ranks; whoever stays longer is killed


@dataclass(slots=True)
class Departure:
    """Processes that are about to leave processors."""

    order: m.Vacate
    since_s: float


class Departures:
    """All departures of an agent that are not complete."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.waiting: list[Departure] = []

    def add(self, order: m.Vacate) -> None:
        """An order to watch processors; a repeated one changes nothing."""
        if not order.pids:  # nothing that was ordered before, and comes later, may run there
            self._agent.is_over(order.job, order.instance)
        what = order.job, order.instance, order.processors
        if what not in ((d.order.job, d.order.instance, d.order.processors) for d in self.waiting):
            self.waiting.append(Departure(order, self._agent.clock()))

    @property
    def retiring(self) -> bool:
        """Whether single ranks are on their way, which takes them milliseconds."""
        return any(departure.order.pids for departure in self.waiting)

    def look(self) -> None:
        """Report the processors that are empty now."""
        self.waiting = [d for d in self.waiting if not self._departed(d)]

    def _departed(self, departure: Departure) -> bool:
        """Whether the processors are empty; says so to the server."""
        order = departure.order
        gone = self._retired(departure) if order.pids else self._ended(order)
        if gone and order.save is not None:
            folder = self._agent.copies_of(order.job)
            gone = self._agent.copies.save(order.job, order.instance, order.save, folder)
        if gone:
            about = f"vacated {order.job}.{order.instance} {order.processors[0]}"
            body = m.Vacated(order.job, order.instance, order.processors)
            self._agent.reports.add(about, body)
        return gone

    def _retired(self, departure: Departure) -> bool:
        left = self.still_there(departure.order)
        if left and self._agent.clock() - departure.since_s > LEAVE_WITHIN_S:
            log.warning("job %d: killing %s, which do not leave", departure.order.job, left)
            tree.kill(left)
        return not left

    def _ended(self, order: m.Vacate) -> bool:
        trees = self._agent.holdings.of(order.job, order.instance)
        for held in trees:
            if not held.killed:
                held.terminate()
        if any(held.running() for held in trees):
            return False
        return all(held.sweep() for held in trees) if trees else self.clear(order)

    def still_there(self, order: m.Vacate) -> list[int]:
        """Of the processes that were about to leave, those that have not.

        Only its own processes keep a job's processors: a pid may be in use again, or a lie.
        """
        left = [pid for pid in order.pids if tree.exists(pid)]
        home = self._agent.home.root
        return tree.belonging(left, order.job, order.instance, home) if left else []

    def clear(self, order: m.Vacate) -> bool:
        """Kill what is left of an instance that this agent knows nothing of; whether all is."""
        left = tree.members(order.job, order.instance, self._agent.owner)
        tree.kill(left)
        return not left
