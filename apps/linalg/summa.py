"""Matrix product of block-cyclic matrices: C = A B by SUMMA with wide panels.

The inner dimension is worked through in steps of many block columns at once. For a step, each
process gets from its grid row all columns of A, from its grid column all rows of B, straight into
contiguous buffers, and adds their product to its part of C; the panels of the next step travel
meanwhile. Wide steps (512 columns and more per product) make the local products run at full speed
and the messages few and long.

The inner indices of a step need not be in ascending order, only in the same order in A's panel and
in B's. Rows of B are taken as they come, one piece per grid row; A's columns, which are
contiguous and cheap to move, are put in that order, and not moved where they have it already.

Source: van de Geijn and Watts, SUMMA: scalable universal matrix multiplication algorithm (1997).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from apps.linalg import blas
from apps.linalg.exchange import start_allgather
from apps.linalg.local_part import require_local
from resize_lib.descriptors import BlockCyclic, CyclicAxis
from resize_lib.emulation.pacing import compute
from resize_lib.grid import Grid

Matrix = NDArray[Any]
Index = NDArray[np.int64]

PANEL = 512  # inner indices per product
WIDEST = 2048  # inner indices per step: bounds the buffers
_SLICE = 512  # columns of C between two looks at the messages under way


def matmul(
    grid: Grid,
    desc_a: BlockCyclic,
    A: Matrix,
    desc_b: BlockCyclic,
    B: Matrix,
    desc_c: BlockCyclic,
    C: Matrix,
    *,
    panel: int = PANEL,
) -> None:
    """C := A B (global m x k, k x n, m x n). Collective over the grid.

    ``A``, ``B``, ``C``: this rank's local parts, all of one type that ``blas`` has; column-major
    is fastest. C's rows must be dealt out as A's and its columns as B's; the blocks of the inner
    dimension may differ between A and B. C need not be set before. As in numpy's product nan and
    inf spread to all elements that are computed from them.

    Raises:
        ValueError, TypeError: parts and descriptors that do not fit; nothing has been changed.
    """
    for desc, local, name in ((desc_a, A, "A"), (desc_b, B, "B"), (desc_c, C, "C")):
        require_local(grid, desc, local, name)
    _require_product(grid, desc_a, desc_b, desc_c)
    if not A.dtype == B.dtype == C.dtype:
        raise TypeError(f"one dtype for all is needed, not {A.dtype}, {B.dtype}, {C.dtype}")
    if desc_a.n == 0:
        C.fill(0)
        return
    inner_a, inner_b = desc_a.axes(grid.shape)[1], desc_b.axes(grid.shape)[0]
    width = desc_a.n if grid.size == 1 else min(WIDEST, panel * grid.rows)
    steps = _steps(inner_a, inner_b, width)
    arrived = _start(grid, A, B, steps[0], 0)
    for number, step in enumerate(steps):
        grid.wait(arrived.requests)
        rest = steps[number + 1 :]
        coming = _start(grid, A, B, rest[0], (number + 1) % 2) if rest else _Panels([], [], [])
        _accumulate(grid, step, arrived, C, 1.0 if number else 0.0, coming.requests)
        arrived = coming


def _require_product(grid: Grid, a: BlockCyclic, b: BlockCyclic, c: BlockCyclic) -> None:
    if a.n != b.m or (c.m, c.n) != (a.m, b.n):
        raise ValueError(f"no product: {a.m} x {a.n} times {b.m} x {b.n} into {c.m} x {c.n}")
    (rows_a, _), (_, cols_b), (rows_c, cols_c) = (d.axes(grid.shape) for d in (a, b, c))
    for what, x, y in (("rows", rows_a, rows_c), ("columns", cols_b, cols_c)):
        if x.nprocs > 1 and x != y:
            raise ValueError(f"C's {what} are dealt out otherwise than its factor's: {y}, {x}")


@dataclass(frozen=True)
class _Step:
    """A range of inner indices: global indices and local positions, per process column and row."""

    of_a: list[Index]  # per grid column, global
    of_b: list[Index]  # per grid row, global
    a_from: list[int]  # per grid column, first local column of A
    b_from: list[int]  # per grid row, first local row of B


def _steps(inner_a: CyclicAxis, inner_b: CyclicAxis, width: int) -> list[_Step]:
    held = [[axis.indices(c) for c in range(axis.nprocs)] for axis in (inner_a, inner_b)]
    steps = []
    for first in range(0, inner_a.n, width):
        cut = [
            [(h, *np.searchsorted(h, (first, first + width)).tolist()) for h in side]
            for side in held
        ]
        (of_a, of_b) = ([h[low:high] for h, low, high in side] for side in cut)
        (a_from, b_from) = ([low for _, low, _ in side] for side in cut)
        steps.append(_Step(of_a, of_b, a_from, b_from))
    return steps


@dataclass(frozen=True)
class _Panels:
    """The pieces of a step: of A per grid column, of B per grid row; mine are views of A and B."""

    a: list[Matrix]
    b: list[Matrix]
    requests: list[MPI.Request]


def _start(grid: Grid, A: Matrix, B: Matrix, step: _Step, parity: int) -> _Panels:
    """Start the messages of ``step`` into the buffers of ``parity``."""

    def piece(name: str, shape: tuple[int, int]) -> Matrix:
        return grid.scratch(f"summa-{name}-{parity}", shape, A.dtype)

    a_pieces = [piece(f"a{c}", (A.shape[0], len(ks))) for c, ks in enumerate(step.of_a)]
    b_pieces = [piece(f"b{r}", (len(ks), B.shape[1])) for r, ks in enumerate(step.of_b)]
    low = step.a_from[grid.col]
    my_a = A[:, low : low + len(step.of_a[grid.col])]
    low = step.b_from[grid.row]
    my_b = B[low : low + len(step.of_b[grid.row])]
    requests = []
    for comm, mine, pieces in ((grid.row_comm, my_a, a_pieces), (grid.col_comm, my_b, b_pieces)):
        # columns of A are contiguous as they lie; rows of B must be copied into a message
        if comm.size == 1 or mine.flags.f_contiguous:
            pieces[comm.rank] = mine
        else:
            pieces[comm.rank][:] = mine
        requests += start_allgather(comm, pieces)
    return _Panels(a_pieces, b_pieces, requests)


def _accumulate(
    grid: Grid, step: _Step, panels: _Panels, C: Matrix, beta: float, coming: list[MPI.Request]
) -> None:
    """C := beta C + the products of ``panels``, poking the messages under way in between."""
    for inner, b_piece in zip(step.of_b, panels.b, strict=True):
        if len(inner) == 0:
            continue
        a_piece = _columns(grid, step, panels.a, inner, C.shape[0])
        width = _SLICE if coming else C.shape[1]
        for low in range(0, C.shape[1], max(1, width)):
            part = slice(low, low + width)
            with compute():
                blas.gemm(1.0, a_piece, b_piece[:, part], beta, C[:, part])
            if coming:
                # MPICH moves long messages only while somebody calls it
                MPI.Request.Testall(coming)
        beta = 1.0


def _columns(grid: Grid, step: _Step, pieces: list[Matrix], inner: Index, rows: int) -> Matrix:
    """A's columns ``inner`` (global inner indices) out of the pieces of the step, in that order."""
    for held, piece in zip(step.of_a, pieces, strict=True):
        if len(held) >= len(inner) and np.array_equal(held[: len(inner)], inner):
            return piece[:, : len(inner)]
    panel = grid.scratch("summa-columns", (rows, len(inner)), pieces[0].dtype)
    for held, piece in zip(step.of_a, pieces, strict=True):
        for target, source, count in _runs(inner, held):
            panel[:, target : target + count] = piece[:, source : source + count]
    return panel


def _runs(wanted: Index, held: Index) -> Iterator[tuple[int, int, int]]:
    """Where ``held`` (ascending) has what is ``wanted`` (ascending), as runs of neighbours.

    Yields (position in wanted, position in held, length).
    """
    common, targets, sources = np.intersect1d(wanted, held, assume_unique=True, return_indices=True)
    if len(common) == 0:
        return
    breaks = np.flatnonzero((np.diff(targets) != 1) | (np.diff(sources) != 1)) + 1
    starts = [0, *breaks.tolist()]
    for start, end in zip(starts, [*starts[1:], len(common)], strict=True):
        yield int(targets[start]), int(sources[start]), end - start
