"""What the agent reports to the server, sent again until the server has acknowledged it.

The server acknowledges only what its journal holds, so no report is lost with a server.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from dq_client.base import messages as m
from dq_client.node.agent.holdings import Tree

log = logging.getLogger("dq.agent")

REPORT_AGAIN_S = 2.0


@dataclass(slots=True)
class PendingReport:
    """Something the server must acknowledge."""

    body: m.RequestBody
    held: Tree | None  # dropped once the report is acknowledged
    cpu_s: float = 0.0  # of AppEnded: two ends that differ in it only are the same
    sent_s: float = float("-inf")
    request: str = ""


class Reports:
    """Open reports by what they are about; a second one about the same thing is not taken."""

    def __init__(self) -> None:
        self._open: dict[str, PendingReport] = {}

    def __contains__(self, about: str) -> bool:
        return about in self._open

    def __bool__(self) -> bool:
        return bool(self._open)

    def add(
        self, about: str, body: m.RequestBody, held: Tree | None = None, cpu_s: float = 0.0
    ) -> None:
        """Report to the server until it acknowledges; then `held` may be forgotten."""
        if about not in self._open:
            self._open[about] = PendingReport(body, held, cpu_s)

    def about(self, about: str) -> m.RequestBody | None:
        """What is being reported about it."""
        report = self._open.get(about)
        return None if report is None else report.body

    def withdraw(self, about: str) -> None:
        """It does not hold any more: not said again."""
        self._open.pop(about, None)

    def send(
        self,
        now: float,
        how: Callable[[m.RequestBody], str],
        again_s: float = REPORT_AGAIN_S,
    ) -> None:
        """Send the reports that are due by `how`, which returns the id of the request.

        again_s: until one that was not acknowledged is sent again
        """
        for report in self._open.values():
            if now - report.sent_s > again_s:
                body = report.body
                if report.cpu_s:
                    body = msgspec.structs.replace(body, cpu_s=report.cpu_s)
                report.sent_s, report.request = now, how(body)

    def acknowledged(self, message: m.Reply) -> list[Tree]:
        """Close the report that this reply acknowledges; returns the trees it was held for."""
        done = []
        for about, report in list(self._open.items()):
            if report.request == message.id:
                # A refusal closes it, too: the server has understood and will not change its mind.
                # Refusals that pass ("later") do not get here (agent.py).
                if isinstance(message.body, m.Error):
                    log.warning("%s: %s", about, message.body.text)
                del self._open[about]
                if report.held is not None:
                    done.append(report.held)
        return done
