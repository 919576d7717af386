"""The port: three calls that may take long, and the news that come of them.

An engine knows its nodes by tickets, the numbers under which it was asked for them. All calls come
from one thread, which is not the server's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from dq_client.deploy.batch.system import Has, Refusal, TicketPhase, Unclear

__all__ = ["Has", "Refusal", "TicketPhase", "Unclear"]  # the port of batch systems has the same


class Engine(Protocol):
    """See the module's docstring.

    name       in messages
    at_once    how many nodes one request may be for
    """

    name: str
    at_once: int
    period_s: float  # how often it may be asked what it has, while something is on its way
    idle_period_s: float  # while nothing is

    def ask(self, tickets: Sequence[int], processors: int, queue: str) -> None:
        """Ask a queue for a node for each of these, consecutive numbers: all or none.

        Refusal; Unclear. `queue`: its name; empty: the pool has none.
        """

    def give(self, keys: Sequence[str]) -> None:
        """Let it have these back, and withdraw those that are pending. Refusal; Unclear."""

    def poll(self) -> list[Has]:
        """All that it has of this cluster, the oldest first, and what has ended lately.

        Refusal; Unclear.
        """

    def words(self, ticket: int) -> str:
        """What a node that has ended said last; empty: nothing."""


@dataclass(frozen=True, slots=True)
class WantedTicket:
    """A ticket of the state, as the driver is told of it.

    asked  it is not granted yet
    given  it was given back, or withdrawn: the engine is to end it
    """

    processors: int
    asked: bool
    given: bool
    node: str = ""
    queue: str = ""


@dataclass(frozen=True, slots=True)
class Started:
    """Granted. `left_s`: of its time, from when this was said."""

    ticket: int
    left_s: float | None


@dataclass(frozen=True, slots=True)
class Revoked:
    """Taken back by the engine: jobs leave the node, which is ended `left_s` from now."""

    ticket: int
    left_s: float
    why: str


@dataclass(frozen=True, slots=True)
class Pending:
    """Taken in, or to be taken in; nobody knows when it is granted."""

    ticket: int
    why: str


@dataclass(frozen=True, slots=True)
class EngineRefusal:
    """It will not come."""

    ticket: int
    why: str


@dataclass(frozen=True, slots=True)
class TicketEnd:
    """There is nothing under this ticket any more."""

    ticket: int
    why: str


News = Started | Revoked | Pending | EngineRefusal | TicketEnd
