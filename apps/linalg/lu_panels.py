"""Panels of an LU factorization: factored where they lie, handed to all ranks.

A panel is one block column from the diagonal down. On grids of several rows it is gathered down
its process column and factored by every process there; on grids of one row nothing has to be
gathered, and a long one travels in the very columns of the strip that need it, with what little
stands above it there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from apps.linalg import blas
from apps.linalg.exchange import Wait, allgather
from apps.linalg.local_part import LocalPart
from resize_lib.descriptors import BlockCyclic
from resize_lib.emulation.pacing import compute
from resize_lib.grid import Grid

Matrix = NDArray[Any]
Index = NDArray[np.int64]

_TAIL = 16  # rows below a strip that travels, for pivots; columns lie whole cache lines apart
_SPARE = 8  # of so many rows that travel at most one is of no use to who receives it


@dataclass(frozen=True, eq=False)
class Strip:
    """Columns ``first`` … ``end``-1 as they are factored, the same on all ranks of a process row.

    ``L``: local rows x (end - first), from A's local row ``base`` on; the rows below A's last are
    no part of it.
    """

    first: int
    end: int
    L: Matrix
    base: int
    height: int

    @classmethod
    def on(cls, grid: Grid, A: Matrix, first: int, end: int, name: str) -> Strip:
        """One in the grid's work array ``name``."""
        height, width = A.shape[0], end - first
        if grid.rows > 1:
            return cls(first, end, grid.scratch(name, (height, width), A.dtype), 0, height)
        rows = (-(-(height - first) // _TAIL) + 1) * _TAIL
        return cls(first, end, grid.scratch(name, (rows, width), A.dtype), first, height)

    def columns(self, first: int, end: int) -> Matrix:
        """Global columns ``first`` … ``end``-1, whole, tail included: contiguous."""
        return self.L[:, first - self.first : end - self.first]

    def below(self, row: int, first: int, end: int) -> Matrix:
        """A's local rows from ``row`` on of global columns ``first`` … ``end``-1."""
        return self.columns(first, end)[row - self.base : self.height - self.base]


@dataclass(frozen=True, eq=False)
class Panel:
    """A factored panel as every rank holds it: columns ``first`` … ``end``-1.

    ``pivots``: global. ``zero``: the first pivot that is exactly zero (global), or -1.
    ``triangle``: w x w, L's unit lower triangle of the diagonal block, valid until the next panel
    or exchange.
    """

    first: int
    end: int
    pivots: Index
    zero: int
    triangle: Matrix


class Panels:
    """Factors the panels of ``A``; ``factor`` is collective over the grid."""

    def __init__(self, grid: Grid, desc: BlockCyclic, A: Matrix, wait: Wait) -> None:
        self.grid, self.desc, self.A = grid, desc, A
        self.local = LocalPart(grid, desc)
        self._wait = wait
        self._sending: dict[int, list[MPI.Request]] = {}  # per panel, by its first column

    def factor(self, first: int, end: int, strip: Strip) -> Panel:
        """Factor columns ``first`` … ``end``-1 of A; then ``strip`` holds their rows.

        On grids of one row A holds them too, with rows exchanged as far as this panel does.
        """
        if self.grid.rows == 1:
            return self._factor_whole(first, end, strip)
        return self._factor_gathered(first, end, strip)

    def poke(self) -> None:
        """Let MPI get on with what is being sent: some networks need the sender for that."""
        self.grid.test([request for sent in self._sending.values() for request in sent])

    def sent(self, *, before: int) -> None:
        """Wait until all panels that begin left of column ``before`` are gone."""
        gone = [first for first in self._sending if first < before]
        self._wait([request for first in gone for request in self._sending.pop(first)])

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
        self._sending[first] = [row.Isend(message, rank) for rank in others]

    # -- one process row ---------------------------------------------------------------------

    def _factor_whole(self, first: int, end: int, strip: Strip) -> Panel:
        """All rows are here: no message is gathered, a long one not even made."""
        rows = strip.below(first, first, end)
        spare = len(strip.L) - len(rows)
        in_place = spare * _SPARE <= len(rows)
        make = self._message_in_place if in_place else self._message_in_buffer
        message, numbers, body = make(first, end, strip)
        owner = self.local.col_owner(first)
        if self.grid.col == owner:
            left = self.local.col(first)
            mine = self.A[first:, left : left + end - first]
            numbers[:] = _factor(mine, first)
            body[:] = mine
        self._broadcast(first, message, owner)
        if not in_place:
            rows[:] = body
        return Panel(first, end, numbers[0].copy(), int(numbers[1, 0]), rows[: end - first])

    def _message_in_place(
        self, first: int, end: int, strip: Strip
    ) -> tuple[NDArray[np.uint8], Index, Matrix]:
        """The strip's whole columns, with numbers in their tail; the numbers; the panel's rows."""
        place = strip.columns(first, end)
        message = place.reshape(-1, order="F").view(np.uint8)
        tail = (len(place) - _TAIL) * place.itemsize
        shape, strides = (2, end - first), (8, place.strides[1])
        numbers: Index = np.ndarray(shape, np.int64, message, tail, strides)
        return message, numbers, strip.below(first, first, end)

    def _message_in_buffer(
        self, first: int, end: int, strip: Strip
    ) -> tuple[NDArray[np.uint8], Index, Matrix]:
        """Numbers, then the panel's rows, in a buffer; the numbers; the rows."""
        rows, head = strip.below(first, first, end), 16 * (end - first)
        message = self._message_buffer(first, head + rows.size * rows.itemsize)
        numbers: Index = np.ndarray((2, end - first), np.int64, message)
        return message, numbers, np.ndarray(rows.shape, rows.dtype, message, head, order="F")

    # -- several process rows ----------------------------------------------------------------

    def _factor_gathered(self, first: int, end: int, strip: Strip) -> Panel:
        """Every process of the process column factors all of the panel, and sends its own rows."""
        width, top, block = end - first, self.local.row(first), self.desc.mb
        height = self.A.shape[0] - top
        lead = -(-height // block) * block  # whole blocks, the last one perhaps not full
        # one message: pivots and zero pivot, triangle, my rows
        head = 16 * width
        item = self.A.itemsize
        message = self._message_buffer(first, head + item * width * (width + lead))
        numbers: Index = np.ndarray((2, width), np.int64, message)
        triangle: Matrix = np.ndarray((width, width), self.A.dtype, message, head, order="F")
        offset = head + item * width * width
        rows: Matrix = np.ndarray((lead, width), self.A.dtype, message, offset, order="F")

        owner = self.local.col_owner(first)
        if self.grid.col == owner:
            left = self.local.col(first)
            rows[:height] = self.A[top:, left : left + width]
            numbers[:] = self._gather_and_factor(first, triangle, rows)
        self._broadcast(first, message, owner)
        strip.below(top, first, end)[:] = rows[:height]
        return Panel(first, end, numbers[0].copy(), int(numbers[1, 0]), triangle)

    def _message_buffer(self, first: int, size: int) -> NDArray[np.uint8]:
        """Where the message of the panel at ``first`` is made or received.

        Two buffers take turns, so that the root need not wait before it makes the next; all that
        was sent from the older one must be gone, which is nearly always so by now.
        """
        self.sent(before=first - self.desc.nb)
        parity = first // self.desc.nb % 2
        return self.grid.scratch(f"lu-panel{parity}", (size, 1), np.uint8)[:, 0]

    def _gather_and_factor(self, first: int, triangle: Matrix, rows: Matrix) -> Index:
        """``rows``: mine of the panel, then of its factors. Returns what ``_factor`` does."""
        grid, block, width = self.grid, self.desc.mb, rows.shape[1]
        height = self.desc.m - first
        blocks = -(-height // block)
        rounds = -(-blocks // grid.rows)
        whole = grid.scratch("lu-whole", (rounds * grid.rows * block, width), rows.dtype)
        dealt = whole.T.reshape(width, rounds, grid.rows, block)  # the cyclic deal, as an axis
        shift = self.local.row_owner(first)
        shares = self._shares(blocks, shift, rows)
        allgather(self._wait, grid.col_comm, shares)
        turns = []
        for row, share in enumerate(shares):
            blocked = share.T.reshape(width, -1, block)
            turns.append((blocked, dealt[:, : blocked.shape[1], (row - shift) % grid.rows]))
            np.copyto(turns[row][1], blocked)
        numbers = _factor(whole[:height], first)
        triangle[:] = whole[:width]
        np.copyto(*turns[grid.row])
        return numbers

    def _shares(self, blocks: int, shift: int, rows: Matrix) -> Sequence[Matrix]:
        """Each process row's rows of a panel of ``blocks``, the first of them at ``shift``."""
        grid, block = self.grid, self.desc.mb
        shares = []
        for row in range(grid.rows):
            turn = (row - shift) % grid.rows  # in the deal, which begins at the diagonal block
            count = max(0, -(-(blocks - turn) // grid.rows))
            name, shape = f"lu-share{row}", (count * block, rows.shape[1])
            shares.append(rows if row == grid.row else grid.scratch(name, shape, rows.dtype))
        return shares


def _factor(panel: Matrix, first: int) -> Index:
    """Factor in place: global pivots, and below them the first zero pivot or -1 again and again."""
    with compute():
        pivots, zero = blas.getrf(panel)
    numbers = np.empty((2, len(pivots)), dtype=np.int64)
    numbers[0], numbers[1] = pivots + first, -1 if zero is None else first + zero
    return numbers
