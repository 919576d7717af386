"""The redistribution plan: what moves between which grid ranks, known before MPI is touched.

A plan depends on descriptors and grids only; every rank computes the same one, and the scheduler
or a simulator can ask it for bytes and cost without a running job. A pair of grid ranks exchanges
the product of its runs on every axis (see ``runs``), so a plan is one small table per axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce

import numpy as np
from numpy.typing import NDArray

from resize_lib.descriptors import Distributed, ProcessGrid
from resize_lib.redistribution.runs import AxisRuns, Box, Runs, axis_runs, items_in, items_of
from resize_lib.redistribution.types import InvalidRedistributionError

Matrix = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Transfer:
    """What one old grid rank hands to one new grid rank: a ``box`` of local indices, by axis."""

    box: Box

    @property
    def items(self) -> int:
        """Number of array items (of all trailing dimensions together: one)."""
        return items_in(self.box)


@dataclass(frozen=True, slots=True)
class RedistributionPlan:
    """Every transfer of one array from ``old`` on ``old_grid`` to ``new`` on ``new_grid``.

    ``itemsize``: bytes of one array item. By axis ``axis_runs``, between old and new coordinates,
    and ``extents_per_pair``, how many of the axis's indices go from old grid rank (row) to new grid
    rank (column); ``bytes_per_pair``: all of them together. Read-only.
    Ranks are grid ranks everywhere; where a method takes ``old_ranks`` and ``new_ranks`` these name
    the process behind each grid rank (left out: grid rank r is process r on both sides).
    """

    old: Distributed
    old_grid: ProcessGrid
    new: Distributed
    new_grid: ProcessGrid
    itemsize: int
    axis_runs: tuple[AxisRuns, ...] = field(repr=False, compare=False)
    extents_per_pair: tuple[Matrix, ...] = field(repr=False, compare=False)
    bytes_per_pair: Matrix = field(repr=False, compare=False)

    def transfer(self, old_rank: int, new_rank: int) -> Transfer:
        """What ``old_rank`` of the old grid hands to ``new_rank`` of the new grid."""
        pairs = zip(
            self.old.place(self.old_grid, old_rank),
            self.new.place(self.new_grid, new_rank),
            strict=True,
        )
        box = tuple(runs.get(pair, ()) for runs, pair in zip(self.axis_runs, pairs, strict=True))
        return Transfer(box if all(box) else ((),) * len(box))

    @property
    def bytes_total(self) -> int:
        """Bytes of the whole array."""
        return int(self.bytes_per_pair.sum())

    def bytes_that_change_process(
        self, old_ranks: Sequence[int] | None = None, new_ranks: Sequence[int] | None = None
    ) -> int:
        """Bytes that end on another process than they started on."""
        return self.bytes_total - int(self.bytes_per_pair[self._same(old_ranks, new_ranks)].sum())

    def estimate_s(
        self,
        latency_s: float,
        bytes_per_s: float,
        old_ranks: Sequence[int] | None = None,
        new_ranks: Sequence[int] | None = None,
    ) -> float:
        """Estimated duration: the busiest process's messages and bytes, sent or received.

        Processes send and receive at the same time, each at ``bytes_per_s``; a message costs
        ``latency_s``; what stays on its process is free.
        """
        moved = np.where(self._same(old_ranks, new_ranks), 0, self.bytes_per_pair)
        cost = np.where(moved > 0, latency_s, 0.0) + moved / bytes_per_s
        return float(max(cost.sum(axis=0).max(), cost.sum(axis=1).max()))

    def is_unchanged(self, old_rank: int, new_rank: int) -> bool:
        """Whether ``new_rank``'s part is exactly ``old_rank``'s part, item by item.

        ``bytes_per_pair`` tells both parts apart from the rest; equal order is one plain run along
        each axis, starting at 0 on both sides.
        """
        shape = self.old.local_shape(self.old_grid, old_rank)
        if shape != self.new.local_shape(self.new_grid, new_rank):
            return False
        if 0 in shape:
            return True
        box = self.transfer(old_rank, new_rank).box
        return all(
            items_of(runs) == extent
            and all(
                r.source == r.destination and r.source_stride == r.destination_stride for r in runs
            )
            for runs, extent in zip(box, shape, strict=False)  # trailing dimensions stay whole
        )

    def _ranks(
        self, old_ranks: Sequence[int] | None, new_ranks: Sequence[int] | None
    ) -> tuple[Sequence[int], Sequence[int]]:
        return (
            range(self.old_grid.size) if old_ranks is None else old_ranks,
            range(self.new_grid.size) if new_ranks is None else new_ranks,
        )

    def _same(
        self, old_ranks: Sequence[int] | None, new_ranks: Sequence[int] | None
    ) -> NDArray[np.bool_]:
        old_ranks, new_ranks = self._ranks(old_ranks, new_ranks)
        same: NDArray[np.bool_] = np.equal.outer(np.asarray(old_ranks), np.asarray(new_ranks))
        return same


def places_of(layout: Distributed, grid: ProcessGrid) -> Matrix:
    """Coordinates of each grid rank on the axes, one row per rank."""
    return np.array([layout.place(grid, rank) for rank in range(grid.size)])


def pair_values(
    runs: Mapping[tuple[int, int], Runs],
    value: Callable[[int, int, Runs], int],
    old_at: Matrix,
    new_at: Matrix,
    axis: int,
) -> Matrix:
    """``value`` of old and new coordinate on ``axis`` and the ``runs`` they share, else 0.

    For each old grid rank (row) and new one (column), which stand at ``old_at`` and ``new_at``
    (``places_of``).
    """
    rows, cols = old_at[:, axis], new_at[:, axis]
    values: Matrix = np.zeros((rows.max() + 1, cols.max() + 1), dtype=np.int64)
    for (i, j), shared in runs.items():
        values[i, j] = value(i, j, shared)
    return values[rows[:, np.newaxis], cols]


def plan_redistribution(
    old: Distributed,
    old_grid: ProcessGrid,
    new: Distributed,
    new_grid: ProcessGrid,
    itemsize: int,
) -> RedistributionPlan:
    """Plan the move of one array; the two descriptors may differ in all but the global shape.

    Plans are cached: arrays of equal layout share one.

    Raises:
        InvalidRedistributionError: the global shapes differ, or an item has a negative size.
        DescriptorError: a descriptor does not fit its grid (``Weighted1D``).
    """
    return _plan(old, old_grid, new, new_grid, itemsize)  # type: ignore[arg-type]  # all hashable


def check_fit(
    old: Distributed,
    old_grid: ProcessGrid,
    new: Distributed,
    new_grid: ProcessGrid,
    itemsize: int,
) -> None:
    """Raise what ``plan_redistribution`` raises, without planning."""
    if old.shape != new.shape:
        raise InvalidRedistributionError(
            f"global shape {old.shape} cannot be redistributed to {new.shape}"
        )
    if itemsize < 0:
        raise InvalidRedistributionError(f"an item of {itemsize} bytes")
    before, after = old.axes(old_grid), new.axes(new_grid)
    if len(before) != len(after):
        raise InvalidRedistributionError(f"{old} and {new} are cut along other dimensions")
    extents = [tuple(axis.n for axis in axes) for axes in (before, after)]
    if extents[0] != extents[1]:  # margins differ
        raise InvalidRedistributionError(
            f"{extents[0]} indices cannot be redistributed to {extents[1]}: {old}, {new}"
        )


@lru_cache(maxsize=128)
def _plan(
    old: Distributed,
    old_grid: ProcessGrid,
    new: Distributed,
    new_grid: ProcessGrid,
    itemsize: int,
) -> RedistributionPlan:
    check_fit(old, old_grid, new, new_grid, itemsize)
    runs_by_axis = tuple(map(axis_runs, old.axes(old_grid), new.axes(new_grid)))
    at = places_of(old, old_grid), places_of(new, new_grid)
    extents = tuple(
        runs.extents[at[0][:, axis, np.newaxis], at[1][:, axis]]
        for axis, runs in enumerate(runs_by_axis)
    )
    nbytes: Matrix = reduce(np.multiply, extents) * itemsize
    for matrix in (*extents, nbytes):  # plans are cached: what one caller wrote, others would read
        matrix.setflags(write=False)
    return RedistributionPlan(old, old_grid, new, new_grid, itemsize, runs_by_axis, extents, nbytes)
