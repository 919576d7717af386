"""What the state and plans ask of all features, typed: promises, places in line, limits, holds.

`State.features` is an `Answers`; feature.py has the one of the features, and `Nobody` is that of a
state without any. All questions are pure: an answer changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from dq_server.core.model.reasons import Reason
from dq_server.core.model.stepfunction import StepFunction

if TYPE_CHECKING:
    from dq_server.core.model.jobs import Job
    from dq_server.core.model.state import State


class Place(StrEnum):
    """Where a queued job stands, for those who look for the head of the queue."""

    IN_ORDER = "in order"
    ASIDE = "aside"  # outside the queue's order: others pass it, nobody makes room for it
    PROMISED = "promised"  # in order; its start is promised, so nobody makes room for it


PlaceOf = Callable[["Job"], Place]


@dataclass(frozen=True, slots=True)
class Bound:
    """How large a running job may grow, whatever is idle.

    most    processors that the job may hold now
    ever    that it might hold if nobody else held any
    whose   for people: "user alice may hold 8 processors at once"
    reason  why no more than `most`
    """

    most: int
    ever: int
    whose: str
    reason: Reason


class Promises:
    """Processors that one feature has promised to somebody, now or later."""

    claimant = ""  # whose they are, in a sentence: "a reservation"

    def claims(self, state: State, taken: StepFunction, now: float, *, to_promise: bool) -> None:
        """Add what is promised to the processors `taken` from `now` on.

        `to_promise`: somebody new is about to be promised something.
        """

    def beyond(
        self, state: State, job: Job, end_s: float, held: int, now: float, *, to_promise: bool
    ) -> tuple[float, int]:
        """Of what the active job holds, what `claims` does not cover already, and until when."""
        return end_s, held

    def may_take(self, state: State, job: Job) -> int | None:
        """How many more processors the job may have; None: as many as are free."""
        return None


class Answers(Protocol):
    """The answers of all features, in their order."""

    def places(self, state: State) -> list[PlaceOf]:
        """Where queued jobs stand; no answer: all of them in order."""

    def promises(self, state: State) -> list[Promises]:
        """What is promised to somebody; nearly always nothing."""

    def limits(self, state: State, job: Job, *, asked: bool) -> Iterable[Bound]:
        """How far the running job may grow. `asked`: its user or its program wants it to."""

    def held_back(self, state: State, job: Job) -> bool:
        """Whether somebody keeps the job WAITING who is known to."""

    def view(self, state: State, job: Job) -> Mapping[str, Any]:
        """The fields of the job's plain data that are the features'."""

    def check(self, state: State) -> None:
        """Raise InvariantViolation if a record contradicts the state."""


class Nobody:
    """There are no features."""

    def places(self, state: State) -> list[PlaceOf]:
        return []

    def promises(self, state: State) -> list[Promises]:
        return []

    def limits(self, state: State, job: Job, *, asked: bool) -> Iterable[Bound]:
        return ()

    def held_back(self, state: State, job: Job) -> bool:
        return False

    def view(self, state: State, job: Job) -> Mapping[str, Any]:
        return {}

    def check(self, state: State) -> None:
        """See Answers."""
