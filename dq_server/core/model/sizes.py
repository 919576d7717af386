"""Legal sizes of a job as configurations (process grids).

A job may run on some numbers of processors only. The thesis lists them per job and views each as a
grid of rows by columns; square grids gain more than their neighbours (ReSHAPE thesis, 4.2.3).

How an application's run time changes with its size, and what a resize costs it (`Scalability`).
Source: MEBF paper, 2.2. It gives no formula for its scalability parameter rho, only curves; they
fit T(n) = T_pref * (pref / n) ** (1 - rho): rho = 0 is linear speed-up, larger is worse. The cost
of a resize is its equations 1 and 2, T_dr = alpha * dN + beta / N and T_p = b * dN, with dN the
change and N the sum of the processors before and after; `scale_s` turns the paper's unit-free cost
to seconds.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log
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


@dataclass(frozen=True, slots=True)
class Scalability:
    """Performance and overhead model of one application."""

    preferred: int  # the size that run times refer to
    rho: float
    alpha: float = 0.0
    beta: float = 0.0
    per_processor: float = 0.0  # b
    scale_s: float = 0.0

    def ratio(self, size: int) -> float:
        """Run time on `size` processors over that on the preferred size."""
        if size == self.preferred:
            return 1.0
        return float((self.preferred / size) ** (1.0 - self.rho))

    @classmethod
    def fitted(cls, times_s: Mapping[int, float], preferred: int) -> Scalability:
        """The rho that fits measured times by size best: least squares of the logarithms.

        The line goes through the time on the preferred size; one size alone says nothing: linear.
        """
        if preferred not in times_s or min(times_s.values()) <= 0:
            return cls(preferred, 0.0)
        base_s = times_s[preferred]
        points = [(log(preferred / n), log(t / base_s)) for n, t in times_s.items()]
        square = sum(x * x for x, _ in points)
        slope = sum(x * y for x, y in points) / square if square else 1.0
        return cls(preferred, max(0.0, 1.0 - slope))

    def overhead_s(self, before: int, after: int) -> float:
        """Seconds that a resize from `before` to `after` processors takes."""
        change = abs(after - before)
        redistribution = self.alpha * change + self.beta / (before + after)
        return self.scale_s * (redistribution + self.per_processor * change)


@dataclass(frozen=True, slots=True)
class RunTime:
    """Time of an iteration on p processors: T(p) = serial_s + parallel_s / p + per_processor_s * p.

    Work that every processor repeats, work that is shared, and communication that grows with their
    number: the least that can tell a sweet spot. No coefficient is negative, so the curve has one
    minimum, and a few noisy points cannot bend it the other way.
    """

    serial_s: float
    parallel_s: float
    per_processor_s: float

    def time_s(self, size: int) -> float:
        """Predicted seconds of one iteration."""
        return self.serial_s + self.parallel_s / size + self.per_processor_s * size

    def __str__(self) -> str:
        return f"{self.serial_s:.3g} + {self.parallel_s:.3g}/p + {self.per_processor_s:.3g}*p s"

    @classmethod
    def fitted(cls, times_s: Mapping[int, float]) -> RunTime:
        """Least squares of the relative errors over measured times by size, none negative.

        Three coefficients are few: every choice of those that are not zero is tried, the fewest and
        the shared work first, and a further one must improve the fit. Two sizes are met exactly by
        two coefficients; serial work is preferred to growing communication then, because the next
        size tried will tell them apart.
        """
        rows = [(1 / t, 1 / (p * t), p / t) for p, t in times_s.items()]
        best, least = (min(times_s.values()), 0.0, 0.0), float("inf")
        for terms in ((1,), (0,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)):
            if len(terms) > len(rows):
                break
            found = least_squares([[row[k] for k in terms] for row in rows], [1.0] * len(rows))
            if found is None or min(found) < 0:
                continue
            chosen = dict(zip(terms, found, strict=True))
            all_three = (chosen.get(0, 0.0), chosen.get(1, 0.0), chosen.get(2, 0.0))
            error = sum(
                (sum(a * x for a, x in zip(row, all_three, strict=True)) - 1) ** 2 for row in rows
            )
            if error < least - 1e-12:
                best, least = all_three, error
        return cls(*best)


def least_squares(rows: Sequence[Sequence[float]], right: Sequence[float]) -> list[float] | None:
    """The x that brings rows @ x closest to `right`, by the normal equations; None if none is."""
    n = len(rows[0])
    scale = [sum(row[k] ** 2 for row in rows) ** 0.5 for k in range(n)]
    if not all(scale):
        return None
    scaled = [[row[k] / scale[k] for k in range(n)] for row in rows]
    system = [
        [
            *(sum(row[i] * row[k] for row in scaled) for k in range(n)),
            sum(row[i] * y for row, y in zip(scaled, right, strict=True)),
        ]
        for i in range(n)
    ]
    for k in range(n):
        pivot = max(range(k, n), key=lambda i: abs(system[i][k]))
        system[k], system[pivot] = system[pivot], system[k]
        if abs(system[k][k]) < 1e-12:
            return None
        for i in range(n):
            if i != k:
                factor = system[i][k] / system[k][k]
                system[i] = [a - factor * b for a, b in zip(system[i], system[k], strict=True)]
    return [system[k][n] / system[k][k] / scale[k] for k in range(n)]
