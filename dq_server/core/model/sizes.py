"""Legal sizes of a job as configurations (process grids).

A job may run on some numbers of processors only. The thesis lists them per job and views each as a
grid of rows by columns; square grids gain more than their neighbours (ReSHAPE thesis, 4.2.3).
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal, get_args

from dq_server.core.model.errors import InvalidSpec, known_words

ChainKind = Literal["square", "powers", "multiple"]
SIZES_MAX = 10_000  # legal sizes of a job, other grids included: decisions look at all of them
_size = attrgetter("size")
_GRID = re.compile(r"(\d{1,6})x(\d{1,6})", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Configuration:
    """A process grid: `rows` x `cols` processors (BLACS NPROW x NPCOL)."""

    rows: int
    cols: int

    @property
    def size(self) -> int:
        """Number of processors."""
        return self.rows * self.cols

    def __str__(self) -> str:
        return f"{self.rows}x{self.cols}"


def nearest_square(size: int) -> Configuration:
    """The grid of `size` processors closest to a square, with rows <= cols."""
    if size < 1:
        raise InvalidSpec(f"a job needs at least one processor, not {size}")
    rows = math.isqrt(size)
    while size % rows:
        rows -= 1
    return Configuration(rows, size // rows)


def configuration(word: int | str) -> Configuration:
    """What a user writes in a list of sizes: 8, nearest to a square, or 1x8, rows by columns."""
    if isinstance(word, int):
        return nearest_square(word)
    found = _GRID.fullmatch(word)
    if found is None:
        raise InvalidSpec(f"{word!r} is no size: give a number as 8, or a grid as 2x4")
    rows, cols = int(found[1]), int(found[2])
    if rows < 1 or cols < 1:
        raise InvalidSpec(f"{word}: a grid has at least one row and one column")
    return Configuration(rows, cols)


def size_chain(kind: ChainKind, smallest: int, largest: int, multiple: int = 1) -> tuple[int, ...]:
    """Legal sizes between `smallest` and `largest` (both included where the chain has them).

    square    k*k and k*(k+1): 1 2 4 6 9 12 16 20 25 (the thesis's sizes)
    powers    1 2 4 8 16
    multiple  every multiple of `multiple`
    """
    if smallest < 1 or largest < smallest:
        raise InvalidSpec(f"sizes from {smallest} to {largest}: need 1 <= min <= max")
    if multiple < 1:
        raise InvalidSpec(f"sizes as multiples of {multiple}: need at least 1")
    if kind == "multiple" and largest - smallest > SIZES_MAX * multiple:
        raise InvalidSpec(f"more than {SIZES_MAX} legal sizes: raise the multiple or lower the max")
    return tuple(s for s in _candidates(kind, largest, multiple) if s >= smallest)


def _candidates(kind: ChainKind, largest: int, multiple: int) -> Iterable[int]:
    if kind == "square":
        k = 1
        while k * k <= largest:
            yield k * k
            if k * (k + 1) <= largest:
                yield k * (k + 1)
            k += 1
    elif kind == "powers":
        size = 1
        while size <= largest:
            yield size
            size *= 2
    elif kind == "multiple":
        yield from range(multiple, largest + 1, multiple)
    else:
        raise InvalidSpec(f"unknown chain {kind!r}; {known_words(kind, get_args(ChainKind))}")


def largest_at_most(legal: Sequence[Configuration], size: int) -> Configuration | None:
    """The largest of the ascending configurations with at most `size` processors."""
    at = size - legal[0].size
    if at < 0:
        return None
    if at < len(legal) and legal[at].size == size:  # sizes without gaps: no search
        return legal[at]
    return legal[bisect_right(legal, size, key=_size) - 1]


def smallest_at_least(legal: Sequence[Configuration], size: int) -> Configuration | None:
    """The smallest of the ascending configurations with at least `size` processors."""
    at = max(0, size - legal[0].size)
    if at < len(legal) and legal[at].size == size:
        return legal[at]
    at = bisect_left(legal, size, key=_size)
    return legal[at] if at < len(legal) else None


def configurations(sizes: Iterable[int]) -> tuple[Configuration, ...]:
    """One near-square configuration per size, ascending and without repeats."""
    return tuple(nearest_square(size) for size in sorted(set(sizes)))


def grids(
    listed: Iterable[Configuration],
) -> tuple[tuple[Configuration, ...], tuple[Configuration, ...]]:
    """One configuration per size, ascending: the one listed first; and the other grids, in order.

    Where a size has several grids, the first is used until another has shown to be faster
    (policies/grids.py).
    """
    first: dict[int, Configuration] = {}
    others: dict[Configuration, None] = {}
    for grid in listed:
        if first.setdefault(grid.size, grid) != grid:
            others[grid] = None
    return tuple(sorted(first.values(), key=_size)), tuple(others)
