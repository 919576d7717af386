"""A product that is computed while waiting for messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mpi4py import MPI
from numpy.typing import NDArray

from resize_lib.grid import Grid
from resize_lib.linalg import blas
from resize_lib.pacing import compute

Real = NDArray[Any]

# A tile takes well under a millisecond at full speed: that is how late a message may be noticed.
# It still runs at nine tenths of the speed of one large product.
TILE_ROWS = 256
TILE_COLS = 256
_PIECE_COLS = 512


class DueProduct:
    """C := C - A B, still to be done: tile by tile while waiting, what is left in one go.

    Local. A, B and C must stay as they are until the product is finished.
    """

    def __init__(self) -> None:
        self._operands: tuple[Real, Real, Real] | None = None
        self._row = 0  # next tile; columns to the left are done, rows above in its columns too
        self._col = 0

    def put(self, a: Real, b: Real, c: Real) -> None:
        """Take on a product; the one before must be finished."""
        if self._operands is not None:
            raise RuntimeError("a product is still due")
        if c.size and a.shape[1]:
            self._operands, self._row, self._col = (a, b, c), 0, 0

    def step(self) -> bool:
        """Compute one tile; False if nothing is due any more."""
        if self._operands is None:
            return False
        a, b, c = self._operands
        rows = slice(self._row, self._row + TILE_ROWS)
        cols = slice(self._col, self._col + TILE_COLS)
        _subtract(a[rows], b[:, cols], c[rows, cols])
        self._row = rows.stop
        if self._row >= c.shape[0]:
            self._row, self._col = 0, cols.stop
        if self._col >= c.shape[1]:
            self._operands = None
        return True

    def finish(self, between: Callable[[], None]) -> None:
        """Compute all that is left, in large pieces; call ``between`` between them."""
        if self._operands is None:
            return
        a, b, c = self._operands
        begun = slice(self._col, self._col + TILE_COLS)
        if self._row:
            _subtract(a[self._row :], b[:, begun], c[self._row :, begun])
            self._col = begun.stop
        for low in range(self._col, c.shape[1], _PIECE_COLS):
            between()
            piece = slice(low, low + _PIECE_COLS)
            _subtract(a, b[:, piece], c[:, piece])
        self._operands = None


def wait_computing(grid: Grid, due: DueProduct, requests: Sequence[MPI.Request]) -> None:
    """Complete ``requests``, computing what is due meanwhile."""
    while not grid.test(requests):
        if not due.step():
            grid.wait(requests)
            return


def _subtract(a: Real, b: Real, c: Real) -> None:
    with compute():
        blas.gemm(-1.0, a, b, 1.0, c)
