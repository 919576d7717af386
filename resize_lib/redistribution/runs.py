"""Which part of one distributed axis goes where: constant-stride runs of local indices.

Coordinate i of the old axis and coordinate j of the new one share the global indices that i held
and j is to hold. For two block-cyclic axes that pattern repeats with the period
lcm(P x block, Q x block'): one period is cut at every block border of either side, each piece has
one owner on both sides, and repeats with a constant stride in the local numbering of both. With
equal blocks a pair that shares anything (when (i - j) mod gcd(P, Q) fits) is one run plus at most
one ragged piece at the end. An axis cut into intervals has no period; its pieces are counted out
in full and equal steps gathered into runs.

Source: the period is that of Prylli and Tourancheau, "Fast runtime block cyclic data
redistribution on multiprocessors" (1997), the algorithm behind ScaLAPACK's pdgemr2d.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from resize_lib.descriptors import Axis, CyclicAxis, Indices


@dataclass(frozen=True, slots=True)
class Run:
    """``count`` stretches of ``length`` neighbouring indices; starts and strides are local."""

    source: int  # first local index on the old coordinate
    destination: int  # first local index on the new coordinate
    length: int
    count: int
    source_stride: int  # from one stretch to the next
    destination_stride: int

    @property
    def items(self) -> int:
        """Number of indices in the run."""
        return self.length * self.count


# Shares are cut at whole stretches where each holds at least so many; none is then larger than the
# others by more than one part in so many.
WHOLE_STRETCHES = 16

Runs: TypeAlias = tuple[Run, ...]
# What two processes share of an array of several axes: the product of the runs of each axis, in the
# order of the axes, or of the dimensions of memory from the outermost (plan, routes).
Box: TypeAlias = tuple[Runs, ...]


def items_in(box: Box) -> int:
    """Number of array items in ``box``; none if one axis shares nothing."""
    return math.prod(map(items_of, box)) if box else 0


def items_of(runs: Runs) -> int:
    """Number of indices in all ``runs``."""
    return sum(run.items for run in runs)


def stretches_in(runs: Runs) -> int:
    """Number of stretches in all ``runs``."""
    return sum(run.count for run in runs)


@lru_cache(maxsize=64)
def _bounds(bounds: tuple[int, ...]) -> Indices:
    return np.asarray(bounds, dtype=np.int64)


def _place(axis: Axis, starts: Indices) -> tuple[Indices, Indices]:
    """Owner and local index of the global indices ``starts``."""
    if isinstance(axis, CyclicAxis):
        block = starts // axis.block
        local = block // axis.nprocs * axis.block + starts % axis.block
        return (block + axis.source) % axis.nprocs, local
    bounds = _bounds(axis.bounds)
    owner = np.searchsorted(bounds, starts, side="right") - 1
    return owner, starts - bounds[owner]


def _held(axis: Axis, coord: int, stop: int) -> tuple[Indices, Indices]:
    """Where the stretches of one coordinate begin and end, up to the global index ``stop``."""
    if isinstance(axis, CyclicAxis):
        first = (coord - axis.source) % axis.nprocs * axis.block
        starts = np.arange(first, stop, axis.block * axis.nprocs, dtype=np.int64)
        return starts, np.minimum(starts + axis.block, stop)
    starts = np.array([axis.bounds[coord]], np.int64)
    return starts, np.array([axis.bounds[coord + 1]], np.int64)


def _cut_at(axis: Axis, starts: Indices, ends: Indices) -> tuple[Indices, Indices]:
    """The same stretches, cut where ``axis`` has a border."""
    if isinstance(axis, CyclicAxis):
        first, last = starts // axis.block, (ends - 1) // axis.block
    else:
        bounds = _bounds(axis.bounds)
        first = np.searchsorted(bounds, starts, side="right") - 1
        last = np.searchsorted(bounds, ends - 1, side="right") - 1
    counts = np.where(ends > starts, last - first + 1, 0)
    which = np.repeat(np.arange(len(starts)), counts)
    number = first[which] + np.arange(len(which)) - (np.cumsum(counts) - counts)[which]
    if isinstance(axis, CyclicAxis):
        low, high = number * axis.block, (number + 1) * axis.block
    else:
        low, high = bounds[number], bounds[number + 1]
    begins, stops = np.maximum(starts[which], low), np.minimum(ends[which], high)
    some = stops > begins
    return begins[some], stops[some]


def _period(old: Axis, new: Axis) -> int:
    """Global length after which the pattern of owners repeats, at most the whole axis."""
    if isinstance(old, CyclicAxis) and isinstance(new, CyclicAxis):
        return min(old.n, math.lcm(old.block * old.nprocs, new.block * new.nprocs))
    return old.n


class AxisRuns(Mapping[tuple[int, int], Runs]):
    """Runs between every pair (old coordinate, new coordinate) that shares indices.

    Pairs that share nothing are left out. Within a pair the runs are in the same order on every
    rank: that order is the order of the items in a message. A coordinate's runs are made when they
    are asked for, in time and memory that grow with its partners: a rank needs those of its own
    coordinates only.
    """

    def __init__(self, old: Axis, new: Axis) -> None:
        self.n = old.n
        self._axes = old, new
        self._period = _period(old, new)
        self._of_old: dict[int, Mapping[int, Runs]] = {}
        self._of_new: dict[int, Mapping[int, Runs]] = {}

    def of_old(self, coord: int) -> Mapping[int, Runs]:
        """What an old coordinate shares, by new coordinate."""
        if coord not in self._of_old:
            self._of_old[coord] = self._made(coord, is_old=True)
        return self._of_old[coord]

    def of_new(self, coord: int) -> Mapping[int, Runs]:
        """What a new coordinate shares, by old coordinate."""
        if coord not in self._of_new:
            self._of_new[coord] = self._made(coord, is_old=False)
        return self._of_new[coord]

    def _made(self, coord: int, *, is_old: bool) -> Mapping[int, Runs]:
        mine, other = self._axes if is_old else self._axes[::-1]
        starts, ends = _cut_at(other, *_held(mine, coord, self._period))
        if not len(starts):
            return {}
        partner, there = _place(other, starts)
        here = _place(mine, starts)[1]
        order = np.argsort(partner, kind="stable")
        lengths = (ends - starts)[order]
        starts, partner = starts[order], partner[order]
        sides = (here[order], there[order]) if is_old else (there[order], here[order])
        pieces, partner = _joined(_Pieces(starts, *sides, lengths), partner)
        cuts = [0, *(np.flatnonzero(np.diff(partner)) + 1).tolist(), len(partner)]
        whole = self.n, self._period, self._axes[0].nprocs, self._axes[1].nprocs
        return {
            int(partner[first]): _repeat(pieces.some(slice(first, last)), *whole)
            for first, last in pairwise(cuts)
        }

    def __getitem__(self, pair: tuple[int, int]) -> Runs:
        old, new = pair
        if new in self._of_new:
            return self._of_new[new][old]
        return self.of_old(old)[new]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        for old in range(self._axes[0].nprocs):
            for new in sorted(self.of_old(old)):
                yield old, new

    def __len__(self) -> int:
        return sum(1 for _ in self)


@lru_cache(maxsize=512)
def axis_runs(old: Axis, new: Axis) -> AxisRuns:
    """The runs between two axes; cached.

    Raises:
        ValueError: the axes differ in global extent.
    """
    if old.n != new.n:
        raise ValueError(f"an axis of {old.n} cannot be redistributed to one of {new.n}")
    return AxisRuns(old, new)


@dataclass(frozen=True, slots=True)
class _Pieces:
    """Stretches within one period: parallel arrays."""

    starts: Indices  # global
    source: Indices
    destination: Indices
    lengths: Indices

    def some(self, which: slice) -> _Pieces:
        """Those of one pair."""
        return _Pieces(
            self.starts[which], self.source[which], self.destination[which], self.lengths[which]
        )


def _joined(p: _Pieces, pair: Indices) -> tuple[_Pieces, Indices]:
    """Unite a ``pair``'s stretches that follow each other without a gap on both sides and globally.

    Pairs come one after the other. Returns the pair of each, too.
    """
    gap = (
        (pair[1:] != pair[:-1])
        | (p.starts[1:] != p.starts[:-1] + p.lengths[:-1])
        | (p.source[1:] != p.source[:-1] + p.lengths[:-1])
        | (p.destination[1:] != p.destination[:-1] + p.lengths[:-1])
    )
    first = np.concatenate(([True], gap))
    total = np.add.reduceat(p.lengths, np.flatnonzero(first))
    return _Pieces(p.starts[first], p.source[first], p.destination[first], total), pair[first]


def _repeat(pieces: _Pieces, n: int, period: int, old_procs: int, new_procs: int) -> Runs:
    """The runs of one pair over the whole axis of ``n``, from its pieces in one period."""
    rounds, rest = divmod(n, period)
    if rounds == 1 and rest == 0:
        return _gather(pieces)
    source_step, destination_step = period // old_procs, period // new_procs
    runs: list[Run] = []
    ragged: list[Run] = []
    for start, source, destination, length in zip(
        pieces.starts.tolist(),
        pieces.source.tolist(),
        pieces.destination.tolist(),
        pieces.lengths.tolist(),
        strict=True,
    ):
        count = rounds + (start + length <= rest)
        run = Run(source, destination, length, count, source_step, destination_step)
        left = min(rest - start, length) if start < rest < start + length else 0
        if length == source_step == destination_step:  # one stretch without a gap on either side
            run = Run(source, destination, length * count + left, 1, 0, 0)
        elif left:
            at = source + rounds * source_step, destination + rounds * destination_step
            ragged.append(Run(*at, left, 1, 0, 0))
        runs.append(run)
    return (*runs, *ragged)


def _gather(pieces: _Pieces) -> Runs:
    """Unite equal stretches at equal steps into runs (an axis without a period)."""
    runs: list[Run] = []
    steps = zip(
        pieces.source.tolist(), pieces.destination.tolist(), pieces.lengths.tolist(), strict=True
    )
    for source, destination, length in steps:
        last = runs[-1] if runs else None
        if last is not None and last.length == length:
            by = source - last.source, destination - last.destination
            if last.count == 1:
                runs[-1] = Run(last.source, last.destination, length, 2, *by)
                continue
            if by == (last.source_stride * last.count, last.destination_stride * last.count):
                strides = last.source_stride, last.destination_stride
                runs[-1] = Run(last.source, last.destination, length, last.count + 1, *strides)
                continue
        runs.append(Run(source, destination, length, 1, 0, 0))
    return tuple(runs)


def share_of(runs: Runs, part: int, parts: int) -> Runs:
    """Share number ``part`` of ``parts`` nearly equal shares of ``runs``, in message order.

    Cut at whole stretches where there are enough of them, so that a share stays one run; otherwise
    within a stretch. All shares in turn are the whole, whatever ``parts`` is.
    """
    if parts == 1:
        return runs
    items = items_of(runs)
    start, stop = items * part // parts, items * (part + 1) // parts
    if stretches_in(runs) >= WHOLE_STRETCHES * parts:
        # Equal in items, not in stretches: runs of one pair may differ in length, and a share is
        # what a buffer is made for.
        return _cut(runs, _stretches_before(runs, start), _stretches_before(runs, stop), whole=True)
    return _cut(runs, start, stop, whole=False)


def items_between(runs: Runs, start: int, stop: int) -> Runs:
    """The items of ``runs`` from number ``start`` to ``stop``, in message order."""
    return _cut(runs, start, stop, whole=False)


def edge_of(runs: Runs, item: int, grain: int) -> int:
    """Number ``item``; where stretches are at most ``grain`` long the first item of its stretch."""
    passed = 0
    for run in runs:
        if item < passed + run.items:
            return item - (item - passed) % run.length if run.length <= grain else item
        passed += run.items
    return item


def _stretches_before(runs: Runs, items: int) -> int:
    """How many whole stretches, in message order, the first ``items`` items hold."""
    stretches = 0
    for run in runs:
        whole = min(run.count, items // run.length)
        stretches += whole
        if whole < run.count:
            break
        items -= whole * run.length
    return stretches


def _cut(runs: Runs, start: int, stop: int, *, whole: bool) -> Runs:
    """What lies from ``start`` to ``stop``, counted in stretches (``whole``) or in items."""
    result: list[Run] = []
    passed = 0
    for run in runs:
        unit = 1 if whole else run.length
        low, high = max(start - passed, 0), min(stop - passed, run.count * unit)
        passed += run.count * unit
        while low < high:
            stretch, skip = divmod(low, unit)
            rounds = (high - low) // unit if skip == 0 else 0
            length = run.length if rounds else min(unit - skip, high - low)
            result.append(
                Run(
                    run.source + stretch * run.source_stride + skip,
                    run.destination + stretch * run.destination_stride + skip,
                    length,
                    rounds or 1,
                    run.source_stride if rounds else 0,
                    run.destination_stride if rounds else 0,
                )
            )
            low += rounds * unit if rounds else length
    return tuple(result)
