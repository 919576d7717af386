"""Processors that are to become empty (order Vacate), until they are.

Either some ranks of a running job retire: the order names their processes. Or the job is over, and
all that it has here ends.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from dq_client.base import messages as m
from dq_client.base import process_tree
from dq_client.node.agent.context import Context
from dq_client.node.agent.copies import CopyKeeper
from dq_client.node.agent.own_ranks import OwnRanks
from dq_client.node.ranks import adoption

log = logging.getLogger("dq.agent")

LEAVE_WITHIN_S = 30.0  # for retiring ranks; whoever stays longer is killed


@dataclass(slots=True)
class Vacancy:
    """Processors that are about to become empty, and since when."""

    order: m.Vacate
    since_s: float


class Vacancies:
    """All orders to vacate processors that are not complete."""

    def __init__(self, context: Context, copies: CopyKeeper, own: OwnRanks) -> None:
        self._context, self._copies, self._own = context, copies, own
        self.waiting: list[Vacancy] = []

    def add(self, order: m.Vacate) -> None:
        """An order to watch processors; a repeated one changes nothing."""
        if (
            not order.pids and order.world < 0
        ):  # nothing that was ordered before, and comes later, may run there
            self._context.closed.close(order.job, order.instance)
        what = order.job, order.instance, order.processors
        if what not in ((v.order.job, v.order.instance, v.order.processors) for v in self.waiting):
            self.waiting.append(Vacancy(order, self._context.clock()))

    @property
    def retiring(self) -> bool:
        """Whether something is on its way out that takes milliseconds: ranks, or copies to disk."""
        return any(
            v.order.pids or (v.order.world >= 0 and not v.order.stop_signal) or v.order.save
            for v in self.waiting
        )

    def look(self) -> None:
        """Report the processors that are empty now."""
        self.waiting = [v for v in self.waiting if not self._vacated(v)]

    def _vacated(self, vacancy: Vacancy) -> bool:
        """Whether the processors are empty; tells the server so."""
        order = vacancy.order
        if order.world >= 0:
            gone = self._own.end_world(order)
        else:
            gone = self._retired(vacancy) if order.pids else self._ended(order)
        # Copies held in memory first: the job may start elsewhere, and needs them, as soon as the
        # server hears that its last start is gone.
        if gone and order.save is not None:
            gone = self._copies.save(order.job, order.instance, order.save)
        if gone:
            about = f"vacated {order.job}.{order.instance} {order.processors[0]}"
            body = m.Vacated(
                job=order.job,
                instance=order.instance,
                processors=order.processors,
                pids=order.pids,
                world=order.world,
            )
            self._context.reports.add(about, body)
        return gone

    def _retired(self, vacancy: Vacancy) -> bool:
        left = self.still_there(vacancy.order)
        if left and self._context.clock() - vacancy.since_s > LEAVE_WITHIN_S:
            log.warning("job %d: killing %s, which do not leave", vacancy.order.job, left)
            process_tree.kill(left)
        return not left

    def _ended(self, order: m.Vacate) -> bool:
        trees = self._context.holdings.of(order.job, order.instance)
        for held in trees:
            if not held.killed:
                held.terminate()
        if any(held.running() for held in trees):
            return False
        return all(held.sweep() for held in trees) if trees else self.clear(order)

    def still_there(self, order: m.Vacate) -> list[int]:
        """Of the processes that were about to leave, those that have not."""
        left = [pid for pid in order.pids if process_tree.exists(pid)]
        # Only its own processes keep a job's processors: the kernel may have given the pid to
        # another process since, and the application may have told a wrong one.
        if not left:
            return []
        held = self._context.holdings.get(order.job, order.instance)
        taken_in = set(adoption.adopted(str(held.folder)) if held is not None else [])
        home = self._context.home.root
        own = process_tree.belonging(left, order.job, order.instance, home)
        return own + [pid for pid in left if pid in taken_in]

    def clear(self, order: m.Vacate) -> bool:
        """Kill what is left of an instance that this agent does not hold; whether nothing is."""
        left = process_tree.members(order.job, order.instance, self._context.owner)
        process_tree.kill(left)
        return not left
