"""Arrays of any dimension in Cartesian blocks, with ghosts around each part.

The descriptor chooses the Cartesian grid itself, from the number of ranks alone. Besides global and
local indices there are *stored* indices here: those of the array that a rank holds, ghosts
included.

Ghosts beyond the border of an axis that is not periodic are the program's boundary values. They
belong to the rank at that border, and move with its part in a redistribution: so an axis has its
margins as further indices there, and "owned" below means the part with such margins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from resize_lib.descriptors.axes import (
    DescriptorError,
    Indices,
    IntervalAxis,
    ProcessGrid,
    extents_of,
    whole_number,
)

DIMENSIONS_MAX = 16  # a copy has two dimensions of numpy's 32 for each


@lru_cache(maxsize=1024)
def balanced_dims(size: int, count: int) -> tuple[int, ...]:
    """``size`` ranks as a grid of ``count`` dimensions, as balanced as possible, never rising.

    The largest dimension is as small as it can be, then the second, and so on, as
    ``MPI.Compute_dims`` should give. The same on every rank and with every MPI.
    """
    found = _factors(size, count, size)
    assert found is not None, "one dimension may take all"
    return found


def _factors(size: int, count: int, largest: int) -> tuple[int, ...] | None:
    """``count`` factors of ``size``, never rising, none above ``largest``; None if impossible."""
    if count == 1:
        return (size,) if size <= largest else None
    for factor in range(1, largest + 1):
        if size % factor == 0 and factor**count >= size:
            rest = _factors(size // factor, count - 1, factor)
            if rest is not None:
                return factor, *rest
    return None


@dataclass(frozen=True, slots=True)
class CartesianBlocks:
    """A global array of ``shape``, cut along ``cut`` into blocks on a Cartesian grid of all ranks.

    ``cut``: which dimensions are distributed, ascending; the others stay whole. Blocks of one
    dimension differ by at most one in size; the first ranks hold more. ``halo``: the width of the
    ghosts on both sides, for each of ``cut``; ``periodic``: whether its ends are neighbours.
    ``dims``: for each of ``cut`` 0, or 1 where the grid must have no more than one rank.

    Raises:
        DescriptorError: a value that cannot be, or lists that differ in length.
    """

    shape: tuple[int, ...]
    cut: tuple[int, ...]
    halo: tuple[int, ...]
    periodic: tuple[bool, ...]
    dims: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", extents_of(self.shape))
        if not 1 <= len(self.shape) <= DIMENSIONS_MAX:
            raise DescriptorError(
                f"a Cartesian array has 1 to {DIMENSIONS_MAX} dimensions, not {len(self.shape)}"
            )
        cut = tuple(whole_number("an axis", axis, 0) for axis in self.cut)
        if not cut or list(cut) != sorted(set(cut)) or cut[-1] >= len(self.shape):
            raise DescriptorError(
                f"axes {cut} of a {len(self.shape)}-D array: name one or more of its dimensions,"
                " each once, in ascending order"
            )
        object.__setattr__(self, "cut", cut)
        halo = tuple(whole_number("halo", width, 0) for width in self.halo)
        dims = tuple(whole_number("dims", ranks, 0) for ranks in self.dims)
        for name, value in (("halo", halo), ("periodic", self.periodic), ("dims", dims)):
            if len(value) != len(cut):
                raise DescriptorError(f"{name} {value}: one value for each of the axes {cut}")
        if any(ranks > 1 for ranks in dims):
            raise DescriptorError(
                f"dims {dims}: 0 leaves an axis free, 1 keeps it whole; more than one rank cannot"
                " be fixed, because the job's size changes"
            )
        if all(dims):
            raise DescriptorError(f"dims {dims} leave no axis free for the ranks of the job")
        object.__setattr__(self, "halo", halo)
        object.__setattr__(self, "dims", dims)
        object.__setattr__(self, "periodic", tuple(map(bool, self.periodic)))

    @property
    def dimensions(self) -> int:
        """Number of dimensions that a redistribution looks at: all."""
        return len(self.shape)

    def cart_dims(self, size: int) -> tuple[int, ...]:
        """The Cartesian grid of ``size`` ranks: how many along each axis of ``cut``."""
        free = iter(balanced_dims(size, self.dims.count(0)))
        return tuple(fixed or next(free) for fixed in self.dims)

    def cart_coords(self, size: int, rank: int) -> tuple[int, ...]:
        """Coordinates of ``rank`` on that grid, row-major as ``MPI.Cartcomm``'s."""
        return tuple(int(c) for c in np.unravel_index(rank, self.cart_dims(size)))

    def cart_rank(self, size: int, coords: tuple[int, ...]) -> int:
        """The rank at ``coords`` of that grid."""
        return int(np.ravel_multi_index(coords, self.cart_dims(size)))

    def bounds(self, size: int) -> tuple[tuple[int, ...], ...]:
        """For each dimension of the array the global borders of its blocks; whole ones: one."""
        result: list[tuple[int, ...]] = [(0, extent) for extent in self.shape]
        for axis, ranks in zip(self.cut, self.cart_dims(size), strict=True):
            result[axis] = _blocks(self.shape[axis], ranks)
        return tuple(result)

    def widths(self) -> tuple[int, ...]:
        """The halo of each dimension of the array: 0 for those that are not cut."""
        by_axis = dict(zip(self.cut, self.halo, strict=True))
        return tuple(by_axis.get(axis, 0) for axis in range(len(self.shape)))

    def is_periodic(self) -> tuple[bool, ...]:
        """For each dimension of the array, whether its ends are neighbours."""
        by_axis = dict(zip(self.cut, self.periodic, strict=True))
        return tuple(by_axis.get(axis, False) for axis in range(len(self.shape)))

    def axes(self, grid: ProcessGrid) -> tuple[IntervalAxis, ...]:
        """One axis per dimension, with the margins of borders that are not periodic."""
        return tuple(
            IntervalAxis(bounds if ring else _with_margins(bounds, width))
            for bounds, width, ring in zip(
                self.bounds(grid.size), self.widths(), self.is_periodic(), strict=True
            )
        )

    def place(self, grid: ProcessGrid, rank: int) -> tuple[int, ...]:
        """Coordinate of grid rank ``rank`` on each dimension: 0 on those that are not cut."""
        grid.coords(rank)
        by_axis = dict(zip(self.cut, self.cart_coords(grid.size, rank), strict=True))
        return tuple(by_axis.get(axis, 0) for axis in range(len(self.shape)))

    def local_shape(self, grid: ProcessGrid, rank: int) -> tuple[int, ...]:
        """Shape of the local part of grid rank ``rank``."""
        held = zip(self.axes(grid), self.place(grid, rank), strict=True)
        return tuple(axis.count(coord) for axis, coord in held)

    def ranges(self, grid: ProcessGrid, rank: int) -> tuple[range, ...]:
        """Global indices of the interior of grid rank ``rank``, by dimension."""
        held = zip(self.bounds(grid.size), self.place(grid, rank), strict=True)
        return tuple(range(bounds[coord], bounds[coord + 1]) for bounds, coord in held)

    def stored_shape(self, grid: ProcessGrid, rank: int) -> tuple[int, ...]:
        """Shape of the array that grid rank ``rank`` stores: the interior and its ghosts."""
        inner = self.ranges(grid, rank)
        return tuple(len(r) + 2 * width for r, width in zip(inner, self.widths(), strict=True))

    def interior(self, grid: ProcessGrid, rank: int) -> tuple[slice, ...]:
        """Slices of the interior within the local part."""
        inner = self.ranges(grid, rank)
        return tuple(
            slice(width, width + len(r)) for r, width in zip(inner, self.widths(), strict=True)
        )

    def owned(self, grid: ProcessGrid, rank: int) -> tuple[slice, ...]:
        """Slices of this rank's own items within the local part."""
        return tuple(
            slice(owned.start - stored.start, owned.stop - stored.start)
            for stored, owned in self._spans(grid, rank)
        )

    def _spans(self, grid: ProcessGrid, rank: int) -> list[tuple[range, range]]:
        """Per dimension the global indices that are stored, and those that are owned."""
        result = []
        for inner, axis, coord, width, ring in zip(
            self.ranges(grid, rank), self.axes(grid), self.place(grid, rank),
            self.widths(), self.is_periodic(), strict=True,
        ):  # fmt: skip
            shift = 0 if ring else width
            owned = range(axis.bounds[coord] - shift, axis.bounds[coord + 1] - shift)
            stored = range(inner.start - width, inner.stop + width)
            # An empty part at the far end owns nothing: its bounds lie beyond what it stores.
            result.append((stored, owned if owned else range(inner.start, inner.start)))
        return result

    def owners(self, indices: Sequence[Any], size: int) -> Indices:
        """The ranks, of ``size``, whose interior holds global ``indices``.

        One array or number per dimension, which broadcast.

        Raises:
            DescriptorError: not one per dimension, or an index outside of the array.
        """
        if len(indices) != len(self.shape):
            raise DescriptorError(f"{len(indices)} indices into a {len(self.shape)}-D array")
        dims = self.cart_dims(size)
        rank: Indices = np.zeros((), np.int64)
        for dimension, (index, extent) in enumerate(zip(indices, self.shape, strict=True)):
            at = np.asarray(index)
            if at.size and not (at.min() >= 0 and at.max() < extent):
                raise DescriptorError(
                    f"an index into dimension {dimension} of {extent} is outside: {at.min()} to"
                    f" {at.max()}"
                )
            rank = rank + 0 * at.astype(np.int64)  # broadcast
            if dimension in self.cut:
                bounds = _blocks(extent, dims[self.cut.index(dimension)])
                rank = rank * (len(bounds) - 1) + np.searchsorted(bounds, at, "right") - 1
        return rank

    def global_indices(self, grid: ProcessGrid, rank: int) -> tuple[Indices, ...]:
        """Global indices of the interior, one array per dimension."""
        return tuple(np.arange(r.start, r.stop, dtype=np.int64) for r in self.ranges(grid, rank))


def _blocks(n: int, parts: int) -> tuple[int, ...]:
    share, extra = divmod(n, parts)
    return tuple(part * share + min(part, extra) for part in range(parts + 1))


def _with_margins(bounds: tuple[int, ...], width: int) -> tuple[int, ...]:
    """Borders with a margin of ``width`` before the first and after the last part.

    The last part is the last that is not empty: the rank that a program finds at the border.
    """
    n = bounds[-1]
    inner = (b + width if b < n else n + 2 * width for b in bounds[1:])
    return 0, *inner
