"""Which of many things have changed since a reader looked last.

Each change gets a number. A thing is remembered with the number of its latest change only, so what
a reader has to be told is bounded by the number of things, however long it was away.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Changes(Generic[K]):
    """`last` is the number of the latest change."""

    def __init__(self, last: int = 0) -> None:
        self.last = last
        self._number: dict[K, int] = {}  # in the order of the numbers

    def touch(self, thing: K) -> None:
        """It has changed, or is new."""
        self.last += 1
        self._number.pop(thing, None)  # or it would keep its place in the order
        self._number[thing] = self.last

    def since(self, number: int) -> list[tuple[K, int]]:
        """What has changed after that number, with the numbers, oldest first."""
        found = []
        for thing, latest in reversed(self._number.items()):
            if latest <= number:
                break
            found.append((thing, latest))
        found.reverse()
        return found
