"""Arrays of two distributed axes: block-cyclic matrices, as ScaLAPACK has them.

Source: the layout and its arithmetic are ScaLAPACK's (Users' Guide, section 4.3; TOOLS/numroc.f),
written for zero-based indices.
"""

from __future__ import annotations

from dataclasses import dataclass

from resize_lib.descriptors.axes import (
    CyclicAxis,
    DescriptorError,
    Indices,
    ProcessGrid,
    whole_number,
)


@dataclass(frozen=True, slots=True)
class BlockCyclic:
    """A global ``m`` x ``n`` array in ``mb`` x ``nb`` blocks, dealt out to any process grid.

    ``rsrc``, ``csrc``: grid row and column of the first block, taken modulo the grid (after a
    shrink the named row may no longer exist). Local parts are 2-D; a rank without blocks has a
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
            value = whole_number(f"BlockCyclic {name}", getattr(self, name), minimum)
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
