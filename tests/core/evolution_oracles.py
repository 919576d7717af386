"""Slow, independent answers to check the evolution package against.

`literal_fit` is Algorithm 2 of Klein & Pérez 2011 as printed, recursion and all, with the errata
applied where marked. `best_starts` tries every whole-second start vector.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

Steps = list[tuple[int, int]]  # (seconds, nodes)


class TakenPerSecond:
    """Nodes taken in each second; the last value goes on forever."""

    def __init__(self, per_second: list[int]) -> None:
        self.per_second = per_second

    def at(self, t: float) -> int:
        return self.per_second[min(int(t), len(self.per_second) - 1)]

    def max(self, start: float, end: float) -> int:
        return max((self.at(t) for t in range(int(start), int(end))), default=0)

    def loc(self, start: float, end: float) -> float:
        """Erratum: the *unclipped* end of the last maximum; clipped, it crawls by seconds."""
        most = self.max(start, end)
        t = max(t for t in range(int(start), int(end)) if self.at(t) == most)
        while self.at(t) == most:
            t += 1
            if t >= len(self.per_second) and self.at(t) == most:
                return inf
        return t


def literal_fit(
    steps: Steps, taken: TakenPerSecond, n_nodes: int, limit: float, i: int = 1, t0: float = 0
) -> tuple[float, list[tuple[float, int]] | None]:
    """(ts, expanded steps), or (earliest start of step i - 1, None): the paper's line numbers."""
    if i > len(steps):  # 1, 2
        return t0, []
    d, n = steps[i - 1]
    ts = t0
    while True:
        if n_nodes - taken.max(ts, ts + d) < n:  # 6, 7
            ts = taken.loc(ts, ts + d)
            continue
        if i > 1:
            before_d, before_n = steps[i - 2]
            earliest = ts - limit * before_d
            if earliest > t0 - before_d:  # 10
                return earliest, None
            if n_nodes - taken.max(t0, ts) < before_n:  # 12
                return taken.loc(t0, ts), None
        tail, expanded = literal_fit(steps, taken, n_nodes, limit, i + 1, ts + d)  # 14
        if expanded is None:
            ts = tail
            continue
        if i > 1:  # Erratum: printed as i > 0, which leaves the next line without use.
            return ts, [(tail - ts, n), *expanded]
        return tail - d, [(d, n), *expanded]


def all_starts(
    steps: Steps, taken: TakenPerSecond, n_nodes: int, limit: float, end_by: int, last_start: int
) -> Iterator[list[int]]:
    """Every start vector, from whole seconds, that obeys C1, the expand limit and C2."""

    def extend(starts: list[int]) -> Iterator[list[int]]:
        i = len(starts)
        if i == len(steps):
            if n_nodes - taken.max(starts[-1], starts[-1] + steps[-1][0]) >= steps[-1][1]:
                yield starts
            return
        d, n = steps[i - 1]
        for length in range(d, end_by + 1) if limit == inf else range(d, int(limit * d) + 1):
            start = starts[-1] + length
            if start + steps[i][0] > end_by or n_nodes - taken.max(starts[-1], start) < n:
                break
            yield from extend([*starts, start])

    for first in range(last_start + 1):
        yield from extend([first])
