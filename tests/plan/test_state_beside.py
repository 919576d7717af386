"""Iterators beside rs.iterations in a zip: ranks agree on the item that is under way, too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from resize_lib.state import digests, iterators


class PlayedItems:
    """What the loop knows of its items: that they are in a zip."""

    zipped, file, line = True, "p.py", 1


def beside(items: Iterable[Any], taken: int) -> bytes:
    """The digest of what stands before a loop in a zip, of which so many items were taken."""
    ours = iter(range(100))
    zipped = zip(items, ours, strict=False)
    for _ in range(taken):
        next(zipped)
    found = iterators.sequences([PlayedItems()], [ours])  # type: ignore[list-item]
    assert len(found.beside) == 1
    return digests.of(found.beside[0])


def numbered(items: list[int]) -> Iterator[tuple[int, int]]:
    return enumerate(items)


@pytest.mark.parametrize("make", [list, tuple, numbered])
def test_the_item_under_way_counts_though_nothing_follows_it(make: Any) -> None:
    assert beside(make([1, 2, 3]), 3) == beside(make([7, 8, 3]), 3)
    assert beside(make([1, 2, 3]), 3) != beside(make([1, 2, 4]), 3)


@pytest.mark.parametrize("make", [list, tuple])
def test_what_follows_counts(make: Any) -> None:
    assert beside(make([1, 2, 3]), 1) != beside(make([1, 2, 4]), 1)
    assert beside(make([1, 2, 3]), 1) != beside(make([1, 2, 3]), 2)
    assert beside(make([0, 2, 3]), 2) == beside(make([1, 2, 3]), 2)
