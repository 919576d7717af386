"""The redistribution plan: what moves between which grid ranks, known before MPI is touched.

A plan depends on descriptors and grids only; every rank computes the same one, and the scheduler
or a simulator can ask it for bytes and cost without a running job. A pair of grid ranks exchanges
the product of its runs on every axis (see ``runs``), so a plan is one small table per axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod

from resize_lib.descriptors import Axis, Distributed, ProcessGrid
from resize_lib.redistribution.runs import AxisRuns, Box, Runs, axis_runs, items_in, items_of
from resize_lib.redistribution.types import InvalidRedistributionError


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

    ``itemsize``: bytes of one array item. ``axis_runs``: by axis, between old and new coordinates.
    Ranks are grid ranks. A rank asks for what it gives and takes itself (``gives``, ``takes``):
    that takes time and memory in proportion to its partners.
    """

    old: Distributed
    old_grid: ProcessGrid
    new: Distributed
    new_grid: ProcessGrid
    itemsize: int
    axis_runs: tuple[AxisRuns, ...] = field(repr=False, compare=False)

    def transfer(self, old_rank: int, new_rank: int) -> Transfer:
        """What ``old_rank`` of the old grid hands to ``new_rank`` of the new grid."""
        pairs = zip(
            self.old.place(self.old_grid, old_rank),
            self.new.place(self.new_grid, new_rank),
            strict=True,
        )
        box = tuple(runs.get(pair, ()) for runs, pair in zip(self.axis_runs, pairs, strict=True))
        return Transfer(box if all(box) else ((),) * len(box))

    def gives(self, old_rank: int) -> dict[int, Box]:
        """What an old rank hands over, by new rank; nothing empty."""
        place = self.old.place(self.old_grid, old_rank)
        shared = [runs.of_old(at) for runs, at in zip(self.axis_runs, place, strict=True)]
        return _boxes(shared, self.new.axes(self.new_grid))

    def takes(self, new_rank: int) -> dict[int, Box]:
        """What a new rank gets, by old rank; nothing empty."""
        place = self.new.place(self.new_grid, new_rank)
        shared = [runs.of_new(at) for runs, at in zip(self.axis_runs, place, strict=True)]
        return _boxes(shared, self.old.axes(self.old_grid))

    @property
    def bytes_total(self) -> int:
        """Bytes of the whole array."""
        return prod(runs.n for runs in self.axis_runs) * self.itemsize

    def is_unchanged(self, old_rank: int, new_rank: int) -> bool:
        """Whether ``new_rank``'s part is exactly ``old_rank``'s part, item by item.

        Equal order is one plain run along each axis, starting at 0 on both sides.
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


def _boxes(shared: Sequence[Mapping[int, Runs]], axes: Sequence[Axis]) -> dict[int, Box]:
    """The products of runs by grid rank, which numbers coordinates with the last axis fastest."""
    found: dict[int, Box] = {0: ()}
    for runs, axis in zip(shared, axes, strict=True):
        found = {
            rank * axis.nprocs + coord: (*box, of_coord)
            for rank, box in found.items()
            for coord, of_coord in runs.items()
        }
    return found


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
    return RedistributionPlan(old, old_grid, new, new_grid, itemsize, runs_by_axis)
