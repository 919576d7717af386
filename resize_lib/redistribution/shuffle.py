"""How an axis that is dealt out anew is put in order: equal units, and where each comes from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from resize_lib.descriptors import Axis
from resize_lib.redistribution.runs import Run, Runs, axis_runs

Index = NDArray[np.int64]

UNIT_BYTES_MIN = 64  # pieces shorter than a cache line are not worth an index each
UNIT_BYTES_MAX = 1 << 13  # pieces from here on are long enough to be copied pair by pair


@dataclass(frozen=True, slots=True)
class Shuffle:
    """The inner axis in units of ``unit`` items, none of which is divided by either side.

    ``old_units``: room that each old coordinate takes, the last one of which may be part of a unit.
    ``origin[j]``: for each whole unit of new coordinate j, the old coordinate and the unit there.
    ``tails``: what is less than a unit, by old and new coordinate.
    """

    unit: int
    old_units: tuple[int, ...]
    origin: tuple[tuple[Index, Index], ...]
    tails: tuple[tuple[int, int, Run], ...]

    @property
    def row_units(self) -> int:
        """Room of a whole row in the old order."""
        return sum(self.old_units)

    def index(self, rows: int) -> tuple[Index, ...]:
        """For each new coordinate: which unit of a staged panel of ``rows`` becomes unit (row, u).

        The panel holds, one after the other, the rows of each old coordinate.
        """
        held = np.array(self.old_units)
        begin = rows * (np.cumsum(held) - held)
        steps = np.arange(rows)[:, np.newaxis]
        return tuple(begin[i] + at + steps * held[i] for i, at in self.origin)


@lru_cache(maxsize=128)
def shuffle_of(old: Axis, new: Axis, item: int) -> Shuffle | None:
    """How rows of ``item``-byte items are put in order.

    None if rows stay whole, or their pieces are long enough to be copied one by one, or too short.
    """
    runs = axis_runs(old, new)
    unit = _unit(runs, old, new, item)
    if len({i for i, _ in runs}) == len({j for _, j in runs}) == len(runs):
        return None
    if not UNIT_BYTES_MIN <= unit * item < UNIT_BYTES_MAX:
        return None
    origin = tuple(_origin(runs, j, new.count(j), unit) for j in range(new.nprocs))
    tails = []
    for (i, j), of_pair in runs.items():
        for run in of_pair:
            whole, rest = run.length // unit * unit, run.length % unit
            if rest:
                at = run.source + whole, run.destination + whole
                tails.append((i, j, Run(*at, rest, 1, 0, 0)))
    held = tuple(-(-old.count(i) // unit) for i in range(old.nprocs))
    return Shuffle(unit, held, origin, tuple(tails))


def _origin(
    runs: Mapping[tuple[int, int], Runs], j: int, extent: int, unit: int
) -> tuple[Index, Index]:
    owner, at = np.zeros((2, extent // unit), dtype=np.int64)
    for (i, to), of_pair in runs.items():
        for run in of_pair if to == j else ():
            step = np.arange(run.length // unit)
            turns = np.arange(run.count)[:, np.newaxis]
            target = (run.destination + turns * run.destination_stride) // unit + step
            owner[target] = i
            at[target] = (run.source + turns * run.source_stride) // unit + step
    return owner, at


def _unit(runs: Mapping[tuple[int, int], Runs], old: Axis, new: Axis, item: int) -> int:
    """Items of the largest unit that divides every run, or else every run but for a ragged end."""
    whole = but_ends = 0
    for (i, j), of_pair in runs.items():
        for run in of_pair:
            ends = run.source + run.length, run.destination + run.length
            starts = run.source, run.destination, run.source_stride, run.destination_stride
            ragged = run.count == 1 and ends == (old.count(i), new.count(j)) and any(starts)
            whole = math.gcd(whole, *starts, run.length)
            but_ends = math.gcd(but_ends, *starts, 0 if ragged else run.length)
    return whole if whole * item >= UNIT_BYTES_MIN else but_ends


@lru_cache(maxsize=8)
def shuffle_index(old: Axis, new: Axis, item: int, rows: int) -> tuple[Index, ...]:
    """``Shuffle.index`` of the axes' shuffle, remembered."""
    shuffle = shuffle_of(old, new, item)
    assert shuffle is not None
    return shuffle.index(rows)
