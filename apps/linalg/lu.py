"""LU factorization with partial pivoting of a block-cyclic matrix: PA = LU.

Theory of operation. The matrix is cut into *strips* of several block columns, a strip into
*panels* of one block column each. A panel lies on one process column. It is gathered down that
column, factored by every process there with LAPACK's getrf (redundantly: the pivots are LAPACK's,
and no message is needed per matrix column), and sent along the process rows. Within the strip the
panel's row exchanges and its update follow at once; the rest of the matrix waits until the whole
strip is factored, and is then updated by one product as deep as the strip, which is where nearly
all the arithmetic is. Columns to the left of a strip have their rows exchanged once, at the very
end.

On grids of one row nothing is gathered, panels need not be copied into messages (``panels``), and
exchanges wait longer: a strip's own columns get those of its later panels at the strip's end, A's
columns those of all later panels at the very end. Each is then one pass over a column in cache.

A strip is a chain of small steps that wait for each other. So the product is not done at once:
only the next strip's columns get it, then the next strip is factored, and wherever a process
would wait for a message meanwhile, it computes a tile of it (``DeferredProduct``).

Messages per panel: one gather of the panel down its process column, one broadcast along each
process row, one exchange of rows down each process column (none on grids of one row); and per strip
one more exchange of rows and one gather of its triangle.

Source: the blocked right-looking algorithm as in LAPACK's getrf and ScaLAPACK's pdgetrf; pivots
and factors are theirs up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from apps.linalg import blas
from apps.linalg.exchange import (
    JoinedColumns,
    allgather,
    interchange,
    lift_rows,
    net_permutation,
    permute_rows,
)
from apps.linalg.local_part import LocalPart, require_finite, require_local
from apps.linalg.lu_panels import Panel, Panels, Strip
from resize_lib.descriptors import BlockCyclic
from resize_lib.emulation.pacing import compute
from resize_lib.grid import Grid

Matrix = NDArray[Any]
Index = NDArray[np.int64]

STRIP = 256  # columns; the depth of the large products

# A tile of a deferred product takes well under a millisecond at full speed: that is how late a
# message may be noticed. It still runs at nine tenths of the speed of one large product.
TILE_ROWS = 256
TILE_COLS = 256
_PIECE_COLS = 512


class SingularMatrixError(ArithmeticError):
    """An exactly zero pivot. The factorization is complete, but U has a zero on its diagonal."""


def lu(grid: Grid, desc: BlockCyclic, A: Matrix, *, strip: int = STRIP) -> Index:
    """Factor in place: A (global, ``desc``) becomes L (unit, below the diagonal) and U.

    ``A``: this rank's local part, column-major, of a type that ``blas`` has. Blocks must be
    square. Works on every grid and every global shape; parts may be empty. Collective over the
    grid.

    Returns the pivots, the same on every rank: row i was exchanged with row ``ipiv[i]`` (global,
    zero-based, as scipy.linalg.lu_factor gives them), i = 0 … min(m, n)-1.

    Raises:
        ValueError, TypeError: the local part does not fit ``desc``; or, on every rank, the matrix
            holds nan or inf, as with scipy's lu_factor. Nothing has been changed.
        SingularMatrixError: on every rank, after the factorization is complete.
    """
    require_local(grid, desc, A, "A")
    if desc.mb != desc.nb:
        raise ValueError(f"lu needs square blocks, not {desc.mb} x {desc.nb}")
    if A.size and not A.flags.f_contiguous and blas.storage_order(A)[0] != b"N":
        raise ValueError("lu needs a column-major local part (order='F')")
    require_finite(grid, desc, A, "A")
    work = _Factorization(grid, desc, A, strip)
    if grid.size == 1:
        with compute():
            work.pivots, work.zero_pivot = blas.getrf(A)
    else:
        work.run()
    if work.zero_pivot is not None:
        raise SingularMatrixError(
            f"pivot {work.zero_pivot} is exactly zero: the matrix is singular "
            "(its factors are complete)"
        )
    return work.pivots


class _Factorization:
    """The state of one factorization; every method is collective over the grid."""

    def __init__(self, grid: Grid, desc: BlockCyclic, A: Matrix, strip: int) -> None:
        self.grid, self.desc, self.A = grid, desc, A
        self.local = LocalPart(grid, desc)
        self.depth = min(desc.m, desc.n)
        self.strip_width = max(1, strip // desc.nb) * desc.nb
        self.pivots = np.empty(self.depth, dtype=np.int64)
        self.zero_pivot: int | None = None
        self.deferred = DeferredProduct()
        # nothing here may refer to self: A would live on until the garbage collector runs
        self.wait = partial(wait_computing, grid, self.deferred)
        self.panels = Panels(grid, desc, A, self.wait)

    def run(self) -> None:
        """Factor strip by strip, then bring the left columns' rows into their final order."""
        strips = self._pieces(0, self.depth, self.strip_width)
        for number, (first, end) in enumerate(strips):
            # two names take turns: the deferred product still reads the previous strip
            name = f"lu-strip{number % 2}"
            strip = Strip.on(self.grid, self.A, first, end, name)
            self._factor_strip(strip)
            self.deferred.finish(self.panels.poke)
            self._update_trailing(strip)
        self.deferred.finish(self.panels.poke)
        self.panels.sent(before=self.depth)
        # on grids of one row A's panels lack their own strip's exchanges too
        width = self.desc.nb if self.grid.rows == 1 else self.strip_width
        for first, end in self._pieces(0, self.depth, width):
            self._exchange_left(first, end)

    @staticmethod
    def _pieces(first: int, end: int, width: int) -> list[tuple[int, int]]:
        return [(start, min(start + width, end)) for start in range(first, end, width)]

    # -- the strip ---------------------------------------------------------------------------

    def _factor_strip(self, strip: Strip) -> None:
        """Factor its columns; the strip's rows are then in its final order.

        So are A's own columns of it, except on grids of one row (see ``_exchange_left``).
        """
        panels = self._pieces(strip.first, strip.end, self.desc.nb)
        for first, end in panels:
            panel = self.panels.factor(first, end, strip)
            self.pivots[first:end] = panel.pivots
            if panel.zero >= 0 and self.zero_pivot is None:
                self.zero_pivot = panel.zero
            self._update_strip(panel, strip)
        if self.grid.rows == 1:  # each column's later exchanges in one pass
            self.panels.sent(before=panels[-1][0])
            for first, end in panels[:-1]:
                with compute():
                    rows = strip.below(end, first, end)
                    blas.swap_rows(rows, self.pivots[end : strip.end] - end)
            return
        for first, end in panels:
            left, right = self.local.col(first), self.local.col(end)
            if right > left:
                top = self.local.row(first)
                self.A[top:, left:right] = strip.below(top, first, end)

    def _update_strip(self, panel: Panel, strip: Strip) -> None:
        """Exchange rows in the strip's other columns; update those to the right of the panel."""
        left = strip.columns(strip.first, panel.first)
        right = self.A[:, self.local.col(panel.end) : self.local.col(strip.end)]
        U = self._exchange_and_solve(
            panel.first, panel.triangle, left, right, name="lu-top-panel", split=False
        )
        below = self.local.row(panel.end)
        with compute():
            depth = strip.below(below, panel.first, panel.end)
            blas.gemm(-1.0, depth, U, 1.0, right[below:])

    # -- the rest ----------------------------------------------------------------------------

    def _update_trailing(self, strip: Strip) -> None:
        """Exchange rows in all columns to the right of the strip; update the next strip's.

        The update of the columns after those is deferred.
        """
        first, below = self.local.col(strip.end), self.local.row(strip.end)
        left, right = strip.L[:, :0], self.A[:, first:]
        triangle = self._gather_triangle(strip)
        U = self._exchange_and_solve(
            strip.first, triangle, left, right, name="lu-top-strip", split=True
        )
        split = self.local.col(min(strip.end + self.strip_width, self.desc.n)) - first
        depth, rest = strip.below(below, strip.first, strip.end), right[below:]
        with compute():
            blas.gemm(-1.0, depth, U[:, :split], 1.0, rest[:, :split])
        self.deferred.put(depth, U[:, split:], rest[:, split:])

    def _gather_triangle(self, strip: Strip) -> Matrix:
        """The strip's own top rows, as many as it has columns, on every process."""
        grid, local, k0, k1 = self.grid, self.local, strip.first, strip.end
        width, mine = k1 - k0, strip.below(local.row(k0), k0, k1)
        if grid.rows == 1:
            return mine[:width]
        places = [local.rows_of(row, k0, k1) - k0 for row in range(grid.rows)]
        shares = [
            grid.scratch(f"lu-share{row}", (len(place), width), self.A.dtype)
            for row, place in enumerate(places)
        ]
        shares[grid.row][:] = mine[: len(places[grid.row])]
        allgather(self.wait, grid.col_comm, shares)
        triangle = grid.scratch("lu-triangle", (width, width), self.A.dtype)
        for place, share in zip(places, shares, strict=True):
            triangle[place] = share
        return triangle

    def _exchange_and_solve(
        self, first: int, triangle: Matrix, left: Matrix, right: Matrix, *, name: str, split: bool
    ) -> Matrix:
        """Rows from ``first`` on have been factored: exchange rows, return U of ``right``.

        ``triangle``: the factored rows of L. ``left``: columns that only have their rows
        exchanged (not looked at on grids of one row), ``right``: columns that become the rows of
        U at the top. All with A's rows. ``split``: on several process rows each solves for a part
        of the columns (then ``left`` is empty), which takes one more message; otherwise all solve
        for all.
        """
        grid, end = self.grid, first + triangle.shape[0]
        pivots = self.pivots[first:end]
        top, below = self.local.row(first), self.local.row(end)
        if grid.rows == 1:
            U = right[top:below]
            with compute():
                blas.swap_rows(right[top:], pivots - first)
                blas.solve_lower_unit_blocked(triangle, U)
            return U
        columns, width = JoinedColumns(left, right), left.shape[1]
        U = grid.scratch(name, (end - first, columns.count), self.A.dtype)
        shares = self._shares(columns.count, split)
        lift_rows(grid, self.local.rows, interchange(first, pivots), columns, shares, U, self.wait)
        mine = shares[grid.row]
        with compute():
            blas.solve_lower_unit_blocked(triangle, U[:, max(width, mine.start) : mine.stop])
        if split:
            allgather(self.wait, grid.col_comm, [U[:, share] for share in shares])
        rows = self.local.rows_of(grid.row, first, end) - first
        for some, here in columns.slices():
            some[:, top:below] = np.take(U.T[here], rows, axis=1, mode="clip")
        return U[:, width:]

    def _shares(self, columns: int, split: bool) -> list[slice]:
        """Which of ``columns`` each process of the grid column solves: all, or its part."""
        ranks = self.grid.rows
        if not split:
            return [slice(0, columns)] * ranks
        return [slice(columns * p // ranks, columns * (p + 1) // ranks) for p in range(ranks)]

    def _exchange_left(self, k0: int, k1: int) -> None:
        """Exchange rows of columns ``k0`` … ``k1``-1 by the pivots of all later columns."""
        part = self.A[:, self.local.col(k0) : self.local.col(k1)]
        later = self.pivots[k1:]
        if self.grid.rows == 1:
            with compute():
                blas.swap_rows(part[k1:], later - k1)
        else:
            source = net_permutation(k1, later, self.desc.m)
            permute_rows(self.grid, self.local.rows, k1, source, part)


class DeferredProduct:
    """C := C - A B, still to be done: tile by tile while waiting, what is left in one go.

    Local. A, B and C must stay as they are until the product is finished.
    """

    def __init__(self) -> None:
        self._operands: tuple[Matrix, Matrix, Matrix] | None = None
        self._row = 0  # next tile; columns to the left are done, rows above in its columns too
        self._col = 0

    def put(self, a: Matrix, b: Matrix, c: Matrix) -> None:
        """Take on a product; the one before must be finished."""
        if self._operands is not None:
            raise RuntimeError("a product is still due")
        if c.size and a.shape[1]:
            self._operands, self._row, self._col = (a, b, c), 0, 0

    def step(self) -> bool:
        """Compute one tile; False if nothing is left."""
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


def wait_computing(grid: Grid, deferred: DeferredProduct, requests: Sequence[MPI.Request]) -> None:
    """Complete ``requests``, computing tiles of ``deferred`` meanwhile."""
    while not grid.test(requests):
        if not deferred.step():
            grid.wait(requests)
            return


def _subtract(a: Matrix, b: Matrix, c: Matrix) -> None:
    with compute():
        blas.gemm(-1.0, a, b, 1.0, c)
