"""Processors of a simulated machine that have neither nodes nor names."""

from __future__ import annotations

from collections.abc import Iterable, Sized
from dataclasses import dataclass

from dq_server.core.model.errors import InvariantViolation, UnknownNode
from dq_server.core.model.processors import Processors


@dataclass(slots=True)
class AnonymousProcessors(Processors):
    """A pool of processors that are all alike: how many are idle is all that is known.

    The questions and answers are those of `Processors`, but the numbers in an allocation only count
    (0, 1, ... in each), so that nothing is sorted or searched however large the machine is.
    Processors are idle or owned: they neither vacate nor go down.
    """

    free: int = 0
    numbers: tuple[int, ...] = ()

    @property
    def idle_count(self) -> int:
        """How many are idle."""
        return self.free

    def join(self, name: str, count: int, speed: float, owned: Iterable[int] = ()) -> None:  # noqa: ARG002
        """More processors; the node's name is forgotten."""
        self.capacity += count
        self.free += count
        self.numbers = tuple(range(self.capacity))

    def lose(self, name: str) -> tuple[int, ...]:
        """Nothing here can be told by its node's name."""
        raise UnknownNode(f"no node named {name}: these processors are anonymous")

    def take(self, count: int) -> tuple[int, ...]:
        if count > self.free:
            raise InvariantViolation(f"{count} processors taken, {self.free} were idle")
        self.free -= count
        return self.numbers[:count]

    def find(self, count: int, *, one_node: bool) -> tuple[int, ...] | None:  # noqa: ARG002
        """See Processors; they are all alike, as if on one node."""
        return self.numbers[:count] if self.free >= count else None

    def claim(self, processors: tuple[int, ...]) -> None:
        self.free -= len(processors)

    def give_back(self, processors: Iterable[int]) -> None:
        self.free += len(processors) if isinstance(processors, Sized) else len(list(processors))

    def without(self, allocation: list[int], leaving: Iterable[int]) -> list[int]:
        """See Processors: one is as good as another, so the last ones leave."""
        return allocation[: len(allocation) - len(list(leaving))]

    def start_vacating(self, processors: Iterable[int], job: int) -> tuple[int, ...]:  # noqa: ARG002
        """Nobody could confirm it: idle at once."""
        self.give_back(processors)
        return ()

    def check(self, owned: Iterable[tuple[int, Iterable[int]]]) -> None:
        """Raise InvariantViolation unless idle and owned add up to all."""
        held = sum(len(list(processors)) for _, processors in owned)
        if self.free < 0 or self.free + held != self.capacity:
            raise InvariantViolation(f"{self.free} idle and {held} owned of {self.capacity}")
