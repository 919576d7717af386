"""LU factorization with partial pivoting of a block-cyclic matrix: PA = LU.

Theory of operation. The matrix is cut into *strips* of several block columns, a strip into
*panels* of one block column each. A panel lies on one process column. It is gathered down that
column, factored by every process there with LAPACK's getrf (redundantly: the pivots are LAPACK's,
and no message is needed per matrix column), and sent along the process rows. Within the strip the
panel's row exchanges and its update follow at once; the rest of the matrix waits until the whole
strip is factored, and is then updated by one product as deep as the strip, which is where nearly
all the arithmetic is. Columns to the left of a strip have their rows exchanged once, at the very
end.

A strip is a chain of small steps that wait for each other. So the product is not done at once:
only the next strip's columns get it, then the next strip is factored, and wherever a process
would wait for a message meanwhile, it computes a tile of the product that is due (``DueProduct``).

Messages per panel: one gather of the panel down its process column, one broadcast along each
process row, one exchange of rows down each process column (none on grids of one row); and per strip
one more exchange of rows and one gather of its triangle.

Source: the blocked right-looking algorithm as in LAPACK's getrf and ScaLAPACK's pdgetrf; pivots
and factors are theirs up to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from resize_lib.descriptors import BlockCyclic
from resize_lib.grid import Grid
from resize_lib.linalg import blas
from resize_lib.linalg.due import DueProduct
from resize_lib.linalg.exchange import allgather
from resize_lib.linalg.layout import Local, require_local
from resize_lib.linalg.rows import Side, interchange, lift_rows, net_permutation, permute_rows
from resize_lib.linalg.triangle import solve
from resize_lib.pacing import compute

Real = NDArray[Any]
Index = NDArray[np.int64]

STRIP = 256  # columns; the depth of the large products


class SingularMatrixError(ArithmeticError):
    """An exactly zero pivot. The factorization is complete, but U has a zero on its diagonal."""


def lu(grid: Grid, desc: BlockCyclic, A: Real, *, strip: int = STRIP) -> Index:
    """Factor in place: A (global, ``desc``) becomes L (unit, below the diagonal) and U.

    ``A``: this rank's local part, column-major, float64 or float32. Blocks must be square. Works
    on every grid and every global shape; parts may be empty. Collective over the grid.

    Returns the pivots, the same on every rank: row i was exchanged with row ``ipiv[i]`` (global,
    zero-based, as scipy.linalg.lu_factor gives them), i = 0 … min(m, n)-1.

    Raises:
        ValueError, TypeError: the local part does not fit ``desc``; nothing has been changed.
        SingularMatrixError: on every rank, after the factorization is complete.
    """
    require_local(grid, desc, A, "A")
    if desc.mb != desc.nb:
        raise ValueError(f"lu needs square blocks, not {desc.mb} x {desc.nb}")
    if A.size and not A.flags.f_contiguous and blas.layout(A)[0] != b"N":
        raise ValueError("lu needs a column-major local part (order='F')")
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


@dataclass(frozen=True)
class _Panel:
    """A factored panel as every rank holds it: columns ``first`` … ``end``-1.

    ``triangle``: w x w, L's unit lower triangle of the diagonal block; ``rows``: the local rows
    from ``first`` on. Views of one message, valid until the next panel.
    """

    first: int
    end: int
    pivots: Index  # global
    triangle: Real
    rows: Real


class _Factorization:
    """The state of one factorization; every method is collective over the grid."""

    def __init__(self, grid: Grid, desc: BlockCyclic, A: Real, strip: int) -> None:
        self.grid, self.desc, self.A = grid, desc, A
        self.local = Local(grid, desc)
        self.depth = min(desc.m, desc.n)
        self.strip_width = max(1, strip // desc.nb) * desc.nb
        self.pivots = np.empty(self.depth, dtype=np.int64)
        self.zero_pivot: int | None = None
        self.due = DueProduct()
        self.sending: list[list[MPI.Request]] = [[], []]  # per message buffer

    def run(self) -> None:
        """Factor strip by strip, then bring the left columns' rows into their final order."""
        starts = range(0, self.depth, self.strip_width)
        strips = [(first, min(first + self.strip_width, self.depth)) for first in starts]
        for number, (first, end) in enumerate(strips):
            # L of the strip, the same on all ranks of a process row, rows as in A; the previous
            # strip's is still needed for the product that is due
            shape = (self.A.shape[0], self.strip_width)
            L = self.grid.scratch(f"lu-strip{number % 2}", shape, self.A.dtype)
            self._factor_strip(first, end, L)
            self.due.finish(self._poke)
            self._update_trailing(first, end, L)
        self.due.finish(self._poke)
        self.grid.wait([*self.sending[0], *self.sending[1]])
        for first, end in strips:
            self._exchange_left(first, end)

    def _wait(self, requests: Sequence[MPI.Request]) -> None:
        """Complete ``requests``, computing what is due meanwhile."""
        while not self.grid.test(requests):
            if not self.due.step():
                self.grid.wait(requests)
                return

    def _poke(self) -> None:
        """Let MPI get on with what is being sent: some networks need the sender for that."""
        self.grid.test([*self.sending[0], *self.sending[1]])

    # -- the strip ---------------------------------------------------------------------------

    def _factor_strip(self, k0: int, k1: int, L: Real) -> None:
        """Factor columns k0 … k1-1; then ``L`` holds them, and A's own columns."""
        block = self.desc.nb
        for first in range(k0, k1, block):
            panel = self._factor_panel(first, min(first + block, k1))
            self.pivots[panel.first : panel.end] = panel.pivots
            top = self.local.row(panel.first)
            L[top:, panel.first - k0 : panel.end - k0] = panel.rows
            self._update_strip(panel, k0, k1, L)
        for first in range(k0, k1, block):
            end = min(first + block, k1)
            left, right = self.local.col(first), self.local.col(end)
            if right > left:
                top = self.local.row(first)
                self.A[top:, left:right] = L[top:, first - k0 : end - k0]

    def _factor_panel(self, first: int, end: int) -> _Panel:
        """Factor columns ``first`` … ``end``-1 on their process column and hand them to all."""
        grid, width, top = self.grid, end - first, self.local.row(first)
        height, block = self.A.shape[0] - top, self.desc.mb
        lead = -(-height // block) * block  # whole blocks, the last one perhaps not full
        # one message: pivots and zero pivot, triangle, my rows
        head = 8 * (width + 1)
        item = self.A.itemsize
        size = head + item * width * (width + lead)
        message = self._message_buffer(first, size)
        numbers = np.ndarray(width + 1, np.int64, message)
        triangle: Real = np.ndarray((width, width), self.A.dtype, message, head, order="F")
        offset = head + item * width * width
        rows: Real = np.ndarray((lead, width), self.A.dtype, message, offset, order="F")

        owner = self.local.col_owner(first)
        if grid.col == owner:
            left = self.local.col(first)
            mine = self.A[top:, left : left + width]
            factor = self._factor_alone if grid.rows == 1 else self._factor_gathered
            numbers[:width], numbers[width] = factor(first, mine, triangle, rows)
            numbers[:width] += first
        self._broadcast(first, message, owner)
        if numbers[width] >= 0 and self.zero_pivot is None:
            self.zero_pivot = first + int(numbers[width])
        return _Panel(first, end, numbers[:width].copy(), triangle, rows[:height])

    def _message_buffer(self, first: int, size: int) -> NDArray[np.uint8]:
        """Where the message of the panel at ``first`` is made or received.

        Two buffers take turns, so that the root need not wait before it makes the next; all that
        was sent from the older one must be gone, which is nearly always so by now.
        """
        parity = first // self.desc.nb % 2
        self._wait(self.sending[parity])
        self.sending[parity] = []
        return self.grid.scratch(f"lu-panel{parity}", (size, 1), np.uint8)[:, 0]

    def _broadcast(self, first: int, message: NDArray[np.uint8], root: int) -> None:
        """``message`` of grid column ``root`` to its whole row; the root does not wait for that.

        Plain sends, because they need nothing more from the root, which computes on: MPICH's
        Ibcast was seen to stand still until its root looked at it again.
        """
        row = self.grid.row_comm
        if self.grid.col != root:
            self._wait([row.Irecv(message, root)])
            return
        others = [(root + step) % row.size for step in range(1, row.size)]
        self.sending[first // self.desc.nb % 2] = [row.Isend(message, rank) for rank in others]

    def _factor_alone(
        self, _first: int, mine: Real, triangle: Real, rows: Real
    ) -> tuple[Index, int]:
        """All rows are here: factor in place. Pivots from the panel's top; zero pivot or -1."""
        with compute():
            pivots, zero = blas.getrf(mine)
        rows[: mine.shape[0]] = mine
        triangle[:] = mine[: triangle.shape[0]]
        return pivots, -1 if zero is None else zero

    def _factor_gathered(
        self, first: int, mine: Real, triangle: Real, rows: Real
    ) -> tuple[Index, int]:
        """Gather the panel's rows of all process rows, factor, keep my ``rows``."""
        grid, block, width = self.grid, self.desc.mb, mine.shape[1]
        height = self.desc.m - first
        blocks = -(-height // block)
        rounds = -(-blocks // grid.rows)
        whole = grid.scratch("lu-whole", (rounds * grid.rows * block, width), mine.dtype)
        dealt = whole.T.reshape(width, rounds, grid.rows, block)  # the cyclic deal, as an axis
        shift = self.local.row_owner(first)
        shares = []
        for row in range(grid.rows):
            turn = (row - shift) % grid.rows  # in the deal, which begins at the diagonal block
            count = max(0, -(-(blocks - turn) // grid.rows))
            name, shape = f"lu-share{row}", (count * block, width)
            shares.append(rows if row == grid.row else grid.scratch(name, shape, mine.dtype))
        rows[: mine.shape[0]] = mine
        allgather(self._wait, grid.col_comm, shares)
        turns = []
        for row, share in enumerate(shares):
            blocked = share.T.reshape(width, -1, block)
            turns.append((blocked, dealt[:, : blocked.shape[1], (row - shift) % grid.rows]))
            np.copyto(turns[row][1], blocked)
        with compute():
            pivots, zero = blas.getrf(whole[:height])
        triangle[:] = whole[:width]
        np.copyto(*turns[grid.row])
        return pivots, -1 if zero is None else zero

    def _update_strip(self, panel: _Panel, k0: int, k1: int, L: Real) -> None:
        """Exchange rows in the strip's other columns; update those to the right of the panel."""
        left = L[:, : panel.first - k0]
        right = self.A[:, self.local.col(panel.end) : self.local.col(k1)]
        U = self._exchange_and_solve(
            panel.first, panel.triangle, left, right, name="lu-top-panel", split=False
        )
        below = self.local.row(panel.end)
        with compute():
            depth = L[below:, panel.first - k0 : panel.end - k0]
            blas.gemm(-1.0, depth, U, 1.0, right[below:])

    # -- the rest ----------------------------------------------------------------------------

    def _update_trailing(self, k0: int, k1: int, L: Real) -> None:
        """Exchange rows in all columns to the right of the strip; update the next strip's.

        The update of the columns after those is left due.
        """
        first, below = self.local.col(k1), self.local.row(k1)
        right = self.A[:, first:]
        triangle = self._gather_triangle(k0, k1, L)
        U = self._exchange_and_solve(k0, triangle, L[:, :0], right, name="lu-top-strip", split=True)
        split = self.local.col(min(k1 + self.strip_width, self.desc.n)) - first
        depth, rest = L[below:, : k1 - k0], right[below:]
        with compute():
            blas.gemm(-1.0, depth, U[:, :split], 1.0, rest[:, :split])
        self.due.put(depth, U[:, split:], rest[:, split:])

    def _gather_triangle(self, k0: int, k1: int, L: Real) -> Real:
        """The strip's top k1-k0 rows of ``L``, on every process."""
        grid, local = self.grid, self.local
        if grid.rows == 1:
            return L[k0:k1, : k1 - k0]
        width = k1 - k0
        places = [local.rows_of(row, k0, k1) - k0 for row in range(grid.rows)]
        shares = [
            grid.scratch(f"lu-share{row}", (len(place), width), self.A.dtype)
            for row, place in enumerate(places)
        ]
        shares[grid.row][:] = L[local.row(k0) : local.row(k1), :width]
        allgather(self._wait, grid.col_comm, shares)
        triangle = grid.scratch("lu-triangle", (width, width), self.A.dtype)
        for place, share in zip(places, shares, strict=True):
            triangle[place] = share
        return triangle

    def _exchange_and_solve(
        self, first: int, triangle: Real, left: Real, right: Real, *, name: str, split: bool
    ) -> Real:
        """Rows from ``first`` on have been factored: exchange rows, return U of ``right``.

        ``triangle``: the factored rows of L. ``left``: columns that only have their rows
        exchanged, ``right``: columns that become the rows of U at the top. All with A's rows.
        ``split``: on several process rows each solves for a part of the columns (then ``left``
        is empty), which takes one more message; otherwise all solve for all.
        """
        grid, end = self.grid, first + triangle.shape[0]
        pivots = self.pivots[first:end]
        top, below = self.local.row(first), self.local.row(end)
        if grid.rows == 1:
            U = right[top:below]
            with compute():
                blas.swap_rows(left[top:], pivots - first)
                blas.swap_rows(right[top:], pivots - first)
                solve(triangle, U)
            return U
        side, width = Side(left, right), left.shape[1]
        U = grid.scratch(name, (end - first, side.columns), self.A.dtype)
        shares = self._shares(side.columns, split)
        lift_rows(grid, self.local.rows, interchange(first, pivots), side, shares, U, self._wait)
        mine = shares[grid.row]
        with compute():
            solve(triangle, U[:, max(width, mine.start) : mine.stop])
        if split:
            allgather(self._wait, grid.col_comm, [U[:, share] for share in shares])
        rows = self.local.rows_of(grid.row, first, end) - first
        for some, here in side.slices():
            some[:, top:below] = np.take(U.T[here], rows, axis=1, mode="clip")
        return U[:, width:]

    def _shares(self, columns: int, split: bool) -> list[slice]:
        """Which of ``columns`` each process of the grid column solves: all, or its part."""
        ranks = self.grid.rows
        if not split:
            return [slice(0, columns)] * ranks
        return [slice(columns * p // ranks, columns * (p + 1) // ranks) for p in range(ranks)]

    def _exchange_left(self, k0: int, k1: int) -> None:
        """Exchange rows of the strip's columns by the pivots of all later strips."""
        part = self.A[:, self.local.col(k0) : self.local.col(k1)]
        later = self.pivots[k1:]
        if self.grid.rows == 1:
            with compute():
                blas.swap_rows(part[k1:], later - k1)
        else:
            source = net_permutation(k1, later, self.desc.m)
            permute_rows(self.grid, self.local.rows, k1, source, part)
