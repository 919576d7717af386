"""Arrays of one distributed axis: in blocks, dealt out round and round, or by weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from resize_lib.descriptors.axes import (
    Axis,
    CyclicAxis,
    DescriptorError,
    Indices,
    IntervalAxis,
    ProcessGrid,
    extents_of,
    whole_number,
)


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

    def axes(self, grid: ProcessGrid) -> tuple[Axis]:
        """Axis 0."""
        return (self.axis(grid),)

    def place(self, grid: ProcessGrid, rank: int) -> tuple[int]:
        """Coordinate of grid rank ``rank``: itself."""
        grid.coords(rank)
        return (rank,)

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
        object.__setattr__(self, "n", whole_number("Block1D n", self.n, 0))
        object.__setattr__(self, "trailing", extents_of(self.trailing))

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
        object.__setattr__(self, "n", whole_number("Cyclic1D n", self.n, 0))
        object.__setattr__(self, "block", whole_number("Cyclic1D block", self.block, 1))
        object.__setattr__(self, "trailing", extents_of(self.trailing))

    def axis(self, grid: ProcessGrid) -> CyclicAxis:
        """Axis 0 over all ranks of ``grid``."""
        return CyclicAxis(self.n, self.block, grid.size, 0)


@dataclass(frozen=True, slots=True)
class Weighted1D(_OneDimensional):
    """``n`` items in one block per rank, as large as the rank's share of the weights.

    ``weights``: one number of at least 0 per rank of the grid, not all 0, such
    as speeds. Bounds are rounded from exact fractions, alike on every rank. ``trailing``: shape of
    one item (dimensions that stay whole).
    """

    n: int
    weights: tuple[float, ...]
    trailing: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", whole_number("Weighted1D n", self.n, 0))
        weights = tuple(float(weight) for weight in self.weights)
        if not all(math.isfinite(weight) and weight >= 0 for weight in weights):
            raise DescriptorError(f"Weighted1D weights must be finite and at least 0: {weights}")
        if not any(weights):
            raise DescriptorError("Weighted1D needs at least one weight above 0")
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "trailing", extents_of(self.trailing))

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
