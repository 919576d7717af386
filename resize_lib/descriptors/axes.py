"""Process grids, and one axis of an array cut over the coordinates of a grid.

Three kinds of coordinates never mix: *global* indices (of the whole array), *local* indices (of
one rank's part) and *grid* coordinates of a process. Ranks here are ranks of the grid,
0 … size-1, in row-major order as the BLACS order 'R'; which communicator rank stands behind a grid
rank is a matter of the redistribution.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import index
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Indices: TypeAlias = NDArray[np.int64]


class DescriptorError(ValueError):
    """Raised for an invalid grid or descriptor; the text names the value and the reason."""


def whole_number(name: str, value: object, minimum: int) -> int:
    """``value`` as a Python int of at least ``minimum``; numpy integers count, booleans do not."""
    if isinstance(value, (bool, np.bool_)):
        raise DescriptorError(f"{name} must be a whole number, not {value!r}")
    try:
        whole = index(value)  # type: ignore[arg-type]
    except TypeError:
        raise DescriptorError(f"{name} must be a whole number, not {value!r}") from None
    if whole < minimum:
        raise DescriptorError(f"{name} must be at least {minimum}, not {whole}")
    return whole


def extents_of(shape: Iterable[int]) -> tuple[int, ...]:
    return tuple(whole_number("every trailing dimension", extent, 0) for extent in shape)


def numroc(n: int, block: int, coord: int, source: int, nprocs: int) -> int:
    """Number of rows or columns (of ``n``, global) that grid coordinate ``coord`` holds.

    ``block`` is the block size, ``source`` the coordinate that holds the first block, ``nprocs``
    the number of coordinates. Source: ScaLAPACK TOOLS/numroc.f.
    """
    distance = (coord - source) % nprocs
    full_blocks, rest = divmod(n, block)
    rounds, extra = divmod(full_blocks, nprocs)
    count = rounds * block
    if distance < extra:
        count += block
    elif distance == extra:
        count += rest
    return count


@dataclass(frozen=True, slots=True)
class ProcessGrid:
    """A configuration: ``rows`` x ``cols`` processes (BLACS NPROW x NPCOL), row-major ranks.

    Raises:
        DescriptorError: for a side that is not a positive whole number.
    """

    rows: int
    cols: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", whole_number("grid rows", self.rows, 1))
        object.__setattr__(self, "cols", whole_number("grid columns", self.cols, 1))

    @property
    def size(self) -> int:
        """Number of processes."""
        return self.rows * self.cols

    def coords(self, rank: int) -> tuple[int, int]:
        """Grid coordinates (row, column) of grid rank ``rank``."""
        if not 0 <= rank < self.size:
            raise DescriptorError(f"rank {rank} is not on the grid {self} of {self.size} ranks")
        return divmod(rank, self.cols)

    def rank(self, row: int, col: int) -> int:
        """Grid rank at coordinates (``row``, ``col``)."""
        if not (0 <= row < self.rows and 0 <= col < self.cols):
            raise DescriptorError(f"coordinates ({row}, {col}) are not on the grid {self}")
        return row * self.cols + col

    def __str__(self) -> str:
        return f"{self.rows}x{self.cols}"


@dataclass(frozen=True, slots=True)
class CyclicAxis:
    """One axis dealt out in blocks, round and round, to ``nprocs`` coordinates from ``source``."""

    n: int  # global extent
    block: int
    nprocs: int
    source: int  # already taken modulo nprocs

    def count(self, coord: int) -> int:
        """Local extent on ``coord``."""
        return numroc(self.n, self.block, coord, self.source, self.nprocs)

    def indices(self, coord: int) -> Indices:
        """Global indices that ``coord`` holds, in local order."""
        local = np.arange(self.count(coord), dtype=np.int64)
        distance = (coord - self.source) % self.nprocs
        return (local // self.block * self.nprocs + distance) * self.block + local % self.block


@dataclass(frozen=True, slots=True)
class IntervalAxis:
    """One axis cut into one interval per coordinate: ``bounds[c]`` to ``bounds[c + 1]``."""

    bounds: tuple[int, ...]  # nprocs + 1 values from 0 to the global extent, never falling

    @property
    def n(self) -> int:
        """Global extent."""
        return self.bounds[-1]

    @property
    def nprocs(self) -> int:
        """Number of coordinates."""
        return len(self.bounds) - 1

    def count(self, coord: int) -> int:
        """Local extent on ``coord``."""
        return self.bounds[coord + 1] - self.bounds[coord]

    def indices(self, coord: int) -> Indices:
        """Global indices that ``coord`` holds, in local order."""
        return np.arange(self.bounds[coord], self.bounds[coord + 1], dtype=np.int64)


Axis: TypeAlias = CyclicAxis | IntervalAxis


@runtime_checkable
class Distributed(Protocol):
    """What every descriptor of an array that is cut into parts answers.

    A distributed array is the product of one or more distributed axes (``axes``) and dimensions
    that stay whole (``trailing``).
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Global shape."""

    @property
    def dimensions(self) -> int:
        """Number of leading dimensions that are cut into parts: one axis each."""

    def local_shape(self, grid: ProcessGrid, rank: int) -> tuple[int, ...]:
        """Shape of the part that grid rank ``rank`` holds."""

    def axes(self, grid: ProcessGrid) -> tuple[Axis, ...]:
        """The distributed axes on ``grid``."""

    def place(self, grid: ProcessGrid, rank: int) -> tuple[int, ...]:
        """Coordinate of grid rank ``rank`` on each axis."""
