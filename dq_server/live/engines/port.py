"""The port: three calls that may take long, and the news that come of them.

An engine knows its nodes by tickets, the numbers under which it was asked for them. All calls come
from one thread, which is not the server's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Refusal(Exception):
    """It will not come, for the reason given."""


class Unclear(Exception):
    """The engine has not answered: what it was asked may have been done, or be done later."""


class TicketPhase(StrEnum):
    """How far a node is."""

    PENDING = "pending"  # asked for, not granted
    RUNNING = "running"  # granted: its agent starts, or has started
    REVOKED = "revoked"  # granted and taken back: what is left there is ended after `left_s`
    ENDED = "ended"  # the engine has it no more


@dataclass(frozen=True, slots=True)
class Has:
    """What an engine has under a ticket. More than one with the same ticket is a mistake of ours.

    key     by which it is given back
    why     in the engine's words
    place   where it is, in the engine's words; empty: not known
    left_s  of its time; None: it may stay for as long as it is wanted. If REVOKED: until the
            engine ends what is left there; None: not known
    """

    ticket: int
    key: int
    phase: TicketPhase
    why: str
    place: str = ""
    left_s: float | None = None


class Engine(Protocol):
    """See the module's docstring. `period_s`: how often it may be asked what it has."""

    period_s: float  # while something is on its way
    idle_period_s: float  # while nothing is

    def ask(self, ticket: int, processors: int) -> None:
        """Ask for a node. Refusal; Unclear."""

    def give(self, keys: Sequence[int]) -> None:
        """Let it have these back, and withdraw those that are pending. Refusal; Unclear."""

    def poll(self) -> list[Has]:
        """All that it has of this cluster, and what has ended lately. Refusal; Unclear."""

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
