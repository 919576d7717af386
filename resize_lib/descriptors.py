"""Descriptors: how a global array lies on a process grid.

Value types only: nothing here knows a communicator. A descriptor holds what stays the same when
the job is resized (global shape, block sizes, source offset); the grid is handed in, so one
descriptor describes the array before and after a resize.

Three kinds of coordinates never mix: *global* indices (of the whole array), *local* indices (of
one rank's part) and *grid* coordinates (row and column of a process). Ranks here are ranks of the
grid, 0 … size-1, in row-major order as the BLACS order 'R'; which communicator rank stands behind
a grid rank is a matter of the redistribution.

Source: the block-cyclic layout and its arithmetic are ScaLAPACK's (Users' Guide, section 4.3;
TOOLS/numroc.f), written for zero-based indices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from operator import index
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Indices: TypeAlias = NDArray[np.int64]


class DescriptorError(ValueError):
    """A grid or a descriptor that cannot describe anything: says which value and why."""


def _whole(name: str, value: object, minimum: int) -> int:
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


def _trailing(shape: Iterable[int]) -> tuple[int, ...]:
    return tuple(_whole("every trailing dimension", extent, 0) for extent in shape)


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
        DescriptorError: a side is not a positive whole number.
    """

    rows: int
    cols: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", _whole("grid rows", self.rows, 1))
        object.__setattr__(self, "cols", _whole("grid columns", self.cols, 1))

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

    A distributed array is the product of two distributed axes (``axes``) and dimensions that stay
    whole (``trailing``). 1-D arrays have a second axis of extent 1 on one coordinate; grid rank r
    then stands at (r, 0).
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Global shape."""

    @property
    def dimensions(self) -> int:
        """Number of leading dimensions that are cut into parts: 1 or 2."""

    def local_shape(self, grid: ProcessGrid, rank: int) -> tuple[int, ...]:
        """Shape of the part that grid rank ``rank`` holds."""

    def axes(self, grid: ProcessGrid) -> tuple[Axis, Axis]:
        """The two distributed axes on ``grid``."""

    def place(self, grid: ProcessGrid, rank: int) -> tuple[int, int]:
        """Coordinates of grid rank ``rank`` on the two axes."""


@dataclass(frozen=True, slots=True)
class BlockCyclic:
    """A global ``m`` x ``n`` array in ``mb`` x ``nb`` blocks, dealt out to any process grid.

    ``rsrc``, ``csrc``: grid row and column of the first block, taken modulo the grid (after a
    shrink the named row may not exist any more). Local parts are 2-D; a rank without blocks has a
    part with an extent of 0.

    Raises:
        DescriptorError: a negative size, a block below 1, an offset below 0.
    """

    m: int
    n: int
    mb: int
    nb: int
    rsrc: int = 0
    csrc: int = 0

    def __post_init__(self) -> None:
        for name, minimum in (("m", 0), ("n", 0), ("mb", 1), ("nb", 1), ("rsrc", 0), ("csrc", 0)):
            value = _whole(f"BlockCyclic {name}", getattr(self, name), minimum)
            object.__setattr__(self, name, value)

    @property
    def shape(self) -> tuple[int, int]:
        """Global shape."""
        return self.m, self.n

    @property
    def dimensions(self) -> int:
        """Number of leading dimensions that are cut into parts."""
        return 2

    def axes(self, grid: ProcessGrid) -> tuple[CyclicAxis, CyclicAxis]:
        """The row axis over grid rows and the column axis over grid columns."""
        return (
            CyclicAxis(self.m, self.mb, grid.rows, self.rsrc % grid.rows),
            CyclicAxis(self.n, self.nb, grid.cols, self.csrc % grid.cols),
        )

    def place(self, grid: ProcessGrid, rank: int) -> tuple[int, int]:
        """Coordinates of grid rank ``rank`` on the two axes: its grid coordinates."""
        return grid.coords(rank)

    def local_shape(self, grid: ProcessGrid, rank: int) -> tuple[int, int]:
        """Local rows and columns on grid rank ``rank``."""
        row, col = grid.coords(rank)
        rows, cols = self.axes(grid)
        return rows.count(row), cols.count(col)

    def global_rows(self, grid: ProcessGrid, row: int) -> Indices:
        """Global indices of the local rows on grid row ``row``, in local order."""
        return self.axes(grid)[0].indices(grid.coords(grid.rank(row, 0))[0])

    def global_cols(self, grid: ProcessGrid, col: int) -> Indices:
        """Global indices of the local columns on grid column ``col``, in local order."""
        return self.axes(grid)[1].indices(grid.coords(grid.rank(0, col))[1])

    def owner(self, i: int, j: int, grid: ProcessGrid) -> int:
        """Grid rank that holds the global element (``i``, ``j``)."""
        if not (0 <= i < self.m and 0 <= j < self.n):
            raise DescriptorError(f"element ({i}, {j}) is outside the {self.m} x {self.n} array")
        row = (i // self.mb + self.rsrc) % grid.rows
        col = (j // self.nb + self.csrc) % grid.cols
        return grid.rank(row, col)


class _OneDimensional:
    """What the 1-D descriptors share: axis 0 is cut over the grid's ranks, the rest stays whole."""

    __slots__ = ()
    n: int
    trailing: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Global shape."""
        return (self.n, *self.trailing)

    @property
    def dimensions(self) -> int:
        """Number of leading dimensions that are cut into parts."""
        return 1

    def axis(self, grid: ProcessGrid) -> Axis:
        """Axis 0 over all ranks of ``grid``."""
        raise NotImplementedError

    def axes(self, grid: ProcessGrid) -> tuple[Axis, Axis]:
        """Axis 0 and a second axis of extent 1."""
        return self.axis(grid), IntervalAxis((0, 1))

    def place(self, grid: ProcessGrid, rank: int) -> tuple[int, int]:
        """Coordinates of grid rank ``rank`` on the two axes."""
        grid.coords(rank)
        return rank, 0

    def local_shape(self, grid: ProcessGrid, rank: int) -> tuple[int, ...]:
        """Shape of the part that grid rank ``rank`` holds."""
        return (self.axis(grid).count(self.place(grid, rank)[0]), *self.trailing)

    def global_indices(self, grid: ProcessGrid, rank: int) -> Indices:
        """Global indices (axis 0) of the local items on grid rank ``rank``, in local order."""
        return self.axis(grid).indices(self.place(grid, rank)[0])


@dataclass(frozen=True, slots=True)
class Block1D(_OneDimensional):
    """``n`` items in one block per rank; sizes differ by at most one, the first ranks hold more.

    ``trailing``: shape of one item (dimensions that stay whole).
    """

    n: int
    trailing: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", _whole("Block1D n", self.n, 0))
        object.__setattr__(self, "trailing", _trailing(self.trailing))

    def axis(self, grid: ProcessGrid) -> IntervalAxis:
        """Axis 0 over all ranks of ``grid``."""
        share, extra = divmod(self.n, grid.size)
        return IntervalAxis(tuple(r * share + min(r, extra) for r in range(grid.size + 1)))


@dataclass(frozen=True, slots=True)
class Cyclic1D(_OneDimensional):
    """``n`` items dealt out round and round in blocks of ``block``.

    ``trailing``: shape of one item (dimensions that stay whole).
    """

    n: int
    block: int = 1
    trailing: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", _whole("Cyclic1D n", self.n, 0))
        object.__setattr__(self, "block", _whole("Cyclic1D block", self.block, 1))
        object.__setattr__(self, "trailing", _trailing(self.trailing))

    def axis(self, grid: ProcessGrid) -> CyclicAxis:
        """Axis 0 over all ranks of ``grid``."""
        return CyclicAxis(self.n, self.block, grid.size, 0)


@dataclass(frozen=True, slots=True)
class Weighted1D(_OneDimensional):
    """``n`` items in one block per rank, as large as the rank's share of the weights.

    ``weights``: one number of at least 0 per rank of the grid, not all 0 (a rank's speed, say).
    Bounds are rounded from exact fractions: every rank computes the same ones. ``trailing``: shape
    of one item (dimensions that stay whole).
    """

    n: int
    weights: tuple[float, ...]
    trailing: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", _whole("Weighted1D n", self.n, 0))
        weights = tuple(float(weight) for weight in self.weights)
        if not all(math.isfinite(weight) and weight >= 0 for weight in weights):
            raise DescriptorError(f"Weighted1D weights must be finite and at least 0: {weights}")
        if not any(weights):
            raise DescriptorError("Weighted1D needs at least one weight above 0")
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "trailing", _trailing(self.trailing))

    def axis(self, grid: ProcessGrid) -> IntervalAxis:
        """Axis 0 over all ranks of ``grid``.

        Raises:
            DescriptorError: not one weight per rank of ``grid``.
        """
        if len(self.weights) != grid.size:
            raise DescriptorError(
                f"Weighted1D has {len(self.weights)} weights, the grid {grid} {grid.size} ranks"
            )
        exact = [Fraction(weight) for weight in self.weights]
        total, running, bounds = sum(exact), Fraction(0), [0]
        for weight in exact:
            running += weight
            bounds.append(math.floor(self.n * running / total + Fraction(1, 2)))
        return IntervalAxis(tuple(bounds))


@dataclass(frozen=True, slots=True)
class Replicated:
    """An array of global ``shape`` that every rank holds whole; joining ranks get a copy."""

    shape: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", _trailing(self.shape))

    def local_shape(self, grid: ProcessGrid, rank: int) -> tuple[int, ...]:
        """The whole shape, on every rank."""
        grid.coords(rank)
        return self.shape


Piece: TypeAlias = bytes | bytearray | memoryview
Pack: TypeAlias = Callable[[Any, ProcessGrid, int, ProcessGrid], Sequence[Piece]]
Unpack: TypeAlias = Callable[[Sequence[bytes], ProcessGrid, int, ProcessGrid], Any]


@dataclass(frozen=True, slots=True)
class Custom:
    """Data of any kind that the application cuts and joins itself.

    ``pack(value, old_grid, old_rank, new_grid)`` runs on every old rank and returns one piece of
    bytes per rank of the new grid (empty ones are not sent). ``unpack(pieces, old_grid, new_rank,
    new_grid)`` runs on every new rank, gets one piece per rank of the old grid and returns the new
    local value. ``label`` tells two of them apart when ranks compare what they declared.
    """

    pack: Pack = field(compare=False, repr=False)
    unpack: Unpack = field(compare=False, repr=False)
    label: str = ""


ArrayDescriptor: TypeAlias = BlockCyclic | Block1D | Cyclic1D | Weighted1D | Replicated | Custom
