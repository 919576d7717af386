"""The part of a block-cyclic matrix that a rank holds: where global rows and columns are in it."""

from __future__ import annotations

from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from apps.linalg.blas import letter
from resize_lib.descriptors import BlockCyclic, CyclicAxis, numroc
from resize_lib.emulation.pacing import compute
from resize_lib.grid import Grid


class LocalPart:
    """The local part of ``desc`` on this rank of ``grid``."""

    def __init__(self, grid: Grid, desc: BlockCyclic) -> None:
        self.grid = grid
        self.rows, self.cols = desc.axes(grid.shape)

    def row(self, index: int) -> int:
        """How many local rows lie above global row ``index``: where those from it on begin."""
        axis = self.rows
        return numroc(index, axis.block, self.grid.row, axis.source, axis.nprocs)

    def col(self, index: int) -> int:
        """How many local columns lie to the left of global column ``index``."""
        axis = self.cols
        return numroc(index, axis.block, self.grid.col, axis.source, axis.nprocs)

    def row_owner(self, index: int) -> int:
        """The grid row that holds global row ``index``."""
        return (index // self.rows.block + self.rows.source) % self.rows.nprocs

    def col_owner(self, index: int) -> int:
        """The grid column that holds global column ``index``."""
        return (index // self.cols.block + self.cols.source) % self.cols.nprocs

    def rows_of(self, grid_row: int, first: int, end: int) -> NDArray[np.int64]:
        """Global rows first … end-1 that grid row ``grid_row`` holds, ascending."""
        block = self.rows.block
        starts = [
            start
            for start in range(first - first % block, end, block)
            if self.row_owner(start) == grid_row
        ]
        pieces = [np.arange(max(first, start), min(end, start + block)) for start in starts]
        return np.concatenate(pieces) if pieces else np.empty(0, dtype=np.int64)


def owners(axis: CyclicAxis, indices: NDArray[np.int64]) -> NDArray[np.int64]:
    """The coordinate that holds each global index of ``axis``."""
    return (indices // axis.block + axis.source) % axis.nprocs


def local_positions(axis: CyclicAxis, indices: NDArray[np.int64]) -> NDArray[np.int64]:
    """The local position of each global index on the coordinate that holds it."""
    return indices // axis.block // axis.nprocs * axis.block + indices % axis.block


def require_local(grid: Grid, desc: BlockCyclic, local: NDArray[Any], name: str) -> None:
    """Check that ``local`` can be this rank's part of an array laid out as ``desc``.

    Raises:
        ValueError: another shape. TypeError: a type that the kernels do not have.
    """
    letter(local.dtype)
    expected = desc.local_shape(grid.shape, grid.rank)
    if local.shape != expected:
        raise ValueError(
            f"{name}: the local part of {desc.m} x {desc.n} in {desc.mb} x {desc.nb} blocks on "
            f"rank {grid.rank} of a {grid.shape} grid is {expected}, not {local.shape}"
        )


def require_finite(grid: Grid, desc: BlockCyclic, local: NDArray[Any], name: str) -> None:
    """Check that no element of the whole array is nan or inf. Collective over the grid.

    Raises:
        ValueError: on every rank, with the first such element, column by column.
    """
    none = desc.m * desc.n
    found = np.array([none])
    with compute():
        # a sum costs half of looking at each element, and is finite only if all of them are
        with np.errstate(over="ignore", invalid="ignore"):
            suspected = not np.isfinite(local.sum())
        if suspected:
            places = np.argwhere(~np.isfinite(local.T))
            if len(places):  # else the sum of large numbers was too large
                col, row = places[0]
                rows = desc.global_rows(grid.shape, grid.row)
                found[0] = desc.global_cols(grid.shape, grid.col)[col] * desc.m + rows[row]
    grid.wait([grid.comm.Iallreduce(MPI.IN_PLACE, found, MPI.MIN)])
    if found[0] < none:
        col, row = divmod(int(found[0]), desc.m)
        raise ValueError(f"{name} holds nan or inf, first in row {row} of column {col}")
