"""What the parts of an agent share: who it is, what it holds, what it says."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from dq_client.base import messages as m
from dq_client.base import process_tree
from dq_client.base.connection import Connection
from dq_client.base.errors import NoServer
from dq_client.base.home import Home
from dq_client.node.agent.holdings import Holdings
from dq_client.node.agent.reports import Reports
from dq_client.node.agent.troubles import Troubles
from dq_client.node.agent.usage import UsageMeter

log = logging.getLogger("dq.agent")

CLOSED_MAX = 10_000


class ClosedInstances:
    """Job instances of which nothing may be started here any more.

    Orders can be overtaken: one to launch may arrive after the one to kill. What has been killed,
    has ended, or has vacated its processors stays that way.
    """

    def __init__(self) -> None:
        self._last: dict[int, int] = {}  # job -> its highest closed instance

    def close(self, job: int, instance: int) -> None:
        """No order to start this instance, or an earlier one, counts any more."""
        # Popped first, so that the job is the newest again and is forgotten last.
        self._last[job] = max(instance, self._last.pop(job, 0))
        if len(self._last) > CLOSED_MAX:
            del self._last[next(iter(self._last))]

    def __contains__(self, instance: tuple[int, int]) -> bool:
        """For (job, instance)."""
        return instance[1] <= self._last.get(instance[0], 0)


@dataclass(slots=True, kw_only=True)
class Context:
    home: Home
    owner: process_tree.Owner  # what tells this agent's processes from all others
    connection: Connection
    holdings: Holdings
    borrowed: bool = False  # a batch system has lent the nodes, and sends signals to all processes
    reports: Reports = field(default_factory=Reports)
    closed: ClosedInstances = field(default_factory=ClosedInstances)
    clock: Callable[[], float] = time.monotonic
    troubles: Troubles = field(init=False)
    usage: UsageMeter = field(init=False)
    _unread: bool = False  # the last message found the queue full

    def __post_init__(self) -> None:
        self.troubles, self.usage = Troubles(self.home), UsageMeter(self.name)

    @property
    def name(self) -> str:
        """The agent's name."""
        return self.owner.agent

    def send(self, body: m.RequestBody) -> str:
        """Send; returns the request's id, an empty one if the queue is full.

        The queue to a server that is away fills up. Nothing is lost: whatever matters is sent again
        until it is acknowledged.
        """
        try:
            sent = self.connection.send(body)
        except NoServer as e:
            if not self._unread:  # said once, however long the server stays away
                log.warning("%s", e)
            self._unread = True
            return ""
        self._unread = False
        return sent
