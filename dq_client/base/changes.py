"""Which of many things have changed since a reader looked last.

Each change gets a number. A thing is remembered with the number of its latest change only, so what
a reader has to be told is bounded by the number of things, however long it was away.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

OUTDATED_MAX = 1000  # entries that later changes have outdated, beside one for each thing


class Changes(Generic[K]):
    """`last` is the number of the latest change."""

    def __init__(self, last: int = 0) -> None:
        self.last = last
        self._number: dict[K, int] = {}  # of each thing's latest change
        # All changes in the order of their numbers, also outdated ones. Two lists, so that the
        # place of a number is found without a look at each: a reader far behind reads in portions.
        self._numbers: list[int] = []
        self._things: list[K] = []

    def touch(self, thing: K) -> None:
        """It has changed, or is new."""
        self.last += 1
        self._number[thing] = self.last
        self._numbers.append(self.last)
        self._things.append(thing)
        if len(self._things) > 2 * len(self._number) + OUTDATED_MAX:
            self._drop_outdated()

    def number(self, thing: K) -> int:
        """Of its latest change; 0 if it is not known."""
        return self._number.get(thing, 0)

    def after(self, number: int) -> Iterator[tuple[K, int]]:
        """What has changed after that number, with the numbers, oldest first.

        To be read before the next change.
        """
        latest, things, numbers = self._number, self._things, self._numbers
        for k in range(bisect_right(numbers, number), len(things)):
            if latest[things[k]] == numbers[k]:
                yield things[k], numbers[k]

    def _drop_outdated(self) -> None:
        kept = list(self.after(0))
        self._things = [thing for thing, _ in kept]
        self._numbers = [number for _, number in kept]
