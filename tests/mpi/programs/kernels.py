"""Kernels on every grid of this many ranks; `kernels.py NAME [SEED]` runs one story.

Each story yields failures as text; rank 0 prints {"failures": [...], "checked": N} at the end.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import os
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
from mpi4py import MPI

from apps.linalg import SingularMatrixError, blas, lu, matmul, verification
from apps.linalg.lu_panels import Panel, Panels, Strip
from resize_lib.descriptors import BlockCyclic
from resize_lib.emulation.pacing import SharePacer, set_pacer
from resize_lib.grid import Grid
from tests.mpi.programs.matrices import TYPES, Local, Order, fill_of, getrf, normal, part, tied

COMM = MPI.COMM_WORLD
ORDERS: tuple[Order, ...] = ("F", "C")
# Whether something is right, and a text that says what.
Verdict = tuple[bool | np.bool_, str]
EPS = float(np.finfo(np.float64).eps)


def grids() -> Iterator[Grid]:
    for rows in range(1, COMM.size + 1):
        if COMM.size % rows == 0:
            grid = Grid(COMM, rows, COMM.size // rows)
            yield grid
            grid.free()


def lu_problems(seed: int) -> Iterator[tuple[str, BlockCyclic, int, Local]]:
    """Shapes, blocks, offsets and strips of every kind; each with a random and a tied matrix."""
    rng = np.random.default_rng(seed)
    for case in range(6):
        m, n = rng.integers(1, 90, size=2).tolist() if case % 2 else [int(rng.integers(1, 90))] * 2
        block, strip = int(rng.integers(1, 20)), int(rng.integers(1, 60))
        offsets = rng.integers(0, 4, size=2).tolist()
        dtype = np.complex128 if case % 3 == 2 else np.float64
        for kind, whole in (
            (f"random {dtype}", normal(rng, (m, n), dtype)),
            (f"tied {dtype}", tied(min(m, 40), min(n, 40), rng, dtype)),
        ):
            rows, cols = whole.shape
            yield kind, BlockCyclic(rows, cols, block, block, *offsets), strip, whole


def lu_like_lapack(seed: int) -> Iterator[Verdict]:
    """Pivots equal to getrf's, factors equal up to rounding, on random and on tied matrices."""
    for grid in grids():
        for kind, desc, strip, whole in lu_problems(seed):
            factors, pivots, _ = getrf(whole)
            local = part(grid, desc, whole)
            found = lu(grid, desc, local, strip=strip)
            name = f"{kind} {desc} strip {strip} on {grid.shape}"
            yield np.array_equal(found, pivots), f"pivots: {name}"
            error = np.abs(local - part(grid, desc, factors)).max(initial=0.0)
            yield error <= 1e4 * EPS * np.abs(factors).max(), f"factors {error}: {name}"


def lu_in_tiles(_seed: int) -> Iterator[Verdict]:
    """Large enough for every path: several tiles due, blocked triangles, columns in slices."""
    whole = np.random.default_rng(1).standard_normal((900, 1000))
    factors, pivots, _ = getrf(whole)
    desc = BlockCyclic(900, 1000, 32, 32)
    for grid in grids():
        local = part(grid, desc, whole)
        yield np.array_equal(lu(grid, desc, local, strip=96), pivots), f"pivots on {grid.shape}"
        error = np.abs(local - part(grid, desc, factors)).max()
        yield error <= 1e5 * EPS * np.abs(factors).max(), f"factors {error} on {grid.shape}"


def lu_of_every_type(_seed: int) -> Iterator[Verdict]:
    """Several strips and panels, a triangle in blocks, by residual and beside LAPACK's factors."""
    desc = BlockCyclic(333, 350, 32, 32, 1, 1)
    for grid in grids():
        for dtype in TYPES:
            fill, name = fill_of(dtype, 4), f"{np.dtype(dtype)} on {grid.shape}"
            local = verification.local_part(grid, desc, fill, dtype)
            pivots = lu(grid, desc, local, strip=96)
            residual = verification.lu_residual(grid, desc, local, pivots, fill)
            yield residual < verification.PASSES_BELOW, f"residual {residual}: {name}"
            error = verification.lu_error(grid, desc, local, pivots, fill)
            yield error < 1000 * np.finfo(dtype).eps, f"error {error}: {name}"
            factors, wanted, _ = getrf(fill(np.arange(333), np.arange(350)))
            yield np.array_equal(pivots, wanted), f"pivots: {name}"
            limit = 1e5 * np.finfo(dtype).eps * np.abs(factors).max()
            off = np.abs(local - part(grid, desc, factors)).max(initial=0.0)
            yield off <= limit, f"factors {off}: {name}"


@contextlib.contextmanager
def late_with_every_panel(late: bool) -> Iterator[None]:
    """LU in which this rank dawdles, if ``late``."""
    factor = Panels.factor

    def dawdle(panels: Panels, first: int, end: int, strip: Strip) -> Panel:
        if late:
            time.sleep(0.004)
        return factor(panels, first, end, strip)

    Panels.factor = dawdle  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        Panels.factor = factor  # type: ignore[method-assign]


def lu_beside_a_slow_rank(_seed: int) -> Iterator[Verdict]:
    """Panels still being sent, or asked for late, are the right ones, also in the next call."""
    for grid in grids():
        for m, n, strip in ((600, 500, 100), (600, 100, 50), (600, 75, 25)):
            for slow in range(grid.size):
                yield from back_to_back(grid, BlockCyclic(m, n, 25, 25), strip, slow)


def back_to_back(grid: Grid, desc: BlockCyclic, strip: int, slow: int) -> Iterator[Verdict]:
    """Three calls in a row, all of them beside the slow rank."""
    whole = np.random.default_rng(7).standard_normal(desc.shape)
    factors, pivots, _ = getrf(whole)
    parts = [part(grid, desc, whole) for _ in range(3)]
    with late_with_every_panel(grid.rank == slow):
        found = [lu(grid, desc, local, strip=strip) for local in parts]
    for call, (ours, local) in enumerate(zip(found, parts, strict=True)):
        name = f"{desc} strip {strip} call {call}, rank {slow} of {grid.shape} slow"
        yield np.array_equal(ours, pivots), f"pivots: {name}"
        error = np.abs(local - part(grid, desc, factors)).max(initial=0.0)
        yield error <= 1e5 * EPS * np.abs(factors).max(), f"factors {error}: {name}"


def nothing_keeps_the_matrix(_seed: int) -> Iterator[Verdict]:
    """A matrix is gone with its last reference, not when the garbage collector runs next."""
    desc, fill = BlockCyclic(300, 300, 20, 20), verification.uniform(5)
    gc.disable()
    for grid in grids():
        local, other = (verification.local_part(grid, desc, fill) for _ in range(2))
        lu(grid, desc, local)
        matmul(grid, desc, other, desc, other, desc, local)
        left = [weakref.ref(local), weakref.ref(other)]
        del local, other
        yield [ref() for ref in left] == [None, None], f"kept on {grid.shape}"
    gc.enable()


def lu_tiny_and_huge_blocks(_seed: int) -> Iterator[Verdict]:
    """Empty matrices, n below the grid, blocks above n, one column, one row; every type."""
    shapes = [(0, 0), (0, 3), (1, 1), (2, 2), (9, 1), (1, 9)]
    for grid in grids():
        for shape, block, dtype in itertools.product(shapes, [1, 50], TYPES):
            desc, fill = BlockCyclic(*shape, block, block, 1, 1), fill_of(dtype, 3)
            local = verification.local_part(grid, desc, fill, dtype)
            pivots = lu(grid, desc, local)
            name = f"{desc} {np.dtype(dtype)} on {grid.shape}"
            yield len(pivots) == min(shape), f"pivots: {name}"
            yield (
                verification.lu_residual(grid, desc, local, pivots, fill) < 16,
                f"residual: {name}",
            )
            error = verification.lu_error(grid, desc, local, pivots, fill)
            yield error < 100 * np.finfo(dtype).eps, f"error {error}: {name}"


def singular(_seed: int) -> Iterator[Verdict]:
    """An exact zero pivot is reported on every rank, with the factors complete."""
    whole = np.random.default_rng(5).standard_normal((30, 30))
    whole[:, 11] = 0.0
    factors, _, info = getrf(whole)
    yield info == 12, "LAPACK agrees"
    desc = BlockCyclic(30, 30, 4, 4)
    for grid in grids():
        local = part(grid, desc, whole)
        try:
            lu(grid, desc, local, strip=8)
        except SingularMatrixError as error:
            yield "pivot 11 is exactly zero" in str(error), str(error)
        else:
            yield False, "no error"
        same = np.allclose(local, part(grid, desc, factors), rtol=0, atol=1e-12)
        yield same, f"factors on {grid.shape}"


def product_problems(
    seed: int,
) -> Iterator[tuple[Local, Local, BlockCyclic, BlockCyclic, BlockCyclic, int]]:
    """Two factors and the three layouts of a product."""
    rng = np.random.default_rng(seed)
    for dtype in (*TYPES, np.float64, np.complex128):
        m, n, k = rng.integers(0, 60, size=3).tolist()
        mb, nb, kb_a, kb_b, panel = rng.integers(1, 17, size=5).tolist()
        r, c, inner_a, inner_b = rng.integers(0, 4, size=4).tolist()
        desc_a = BlockCyclic(m, k, mb, kb_a, r, inner_a)
        desc_b = BlockCyclic(k, n, kb_b, nb, inner_b, c)
        desc_c = BlockCyclic(m, n, mb, nb, r, c)
        A, B = (normal(rng, shape, dtype) for shape in ((m, k), (k, n)))
        yield A, B, desc_a, desc_b, desc_c, panel


def matmul_like_numpy(seed: int) -> Iterator[Verdict]:
    """Any shapes, blocks, offsets, orders in memory and panel widths."""
    for grid in grids():
        for A, B, desc_a, desc_b, desc_c, panel in product_problems(seed):
            wanted, limit = A @ B, 100 * max(A.shape[1], 1) * np.finfo(A.dtype).eps
            for orders in itertools.product(ORDERS, repeat=3):
                a, b = part(grid, desc_a, A, orders[0]), part(grid, desc_b, B, orders[1])
                c = part(grid, desc_c, np.full_like(wanted, np.nan), orders[2])
                matmul(grid, desc_a, a, desc_b, b, desc_c, c, panel=panel)
                error = np.abs(c - part(grid, desc_c, wanted)).max(initial=0.0)
                name = f"{desc_a} {desc_b} {orders} panel {panel} on {grid.shape}"
                yield error <= limit, f"{error}: {name}"


def nan_and_inf_in_a_product(_seed: int) -> Iterator[Verdict]:
    """They spread as in numpy's product, whatever C held before."""
    rng = np.random.default_rng(8)
    desc_a, desc_b, desc_c = (BlockCyclic(*s, 5, 5) for s in ((30, 41), (41, 20), (30, 20)))
    for grid in grids():
        for dtype, bad in itertools.product(TYPES, (np.nan, np.inf)):
            A, B = normal(rng, (30, 41), dtype), normal(rng, (41, 20), dtype)
            A[7, 13] = bad
            B[40, 3], B[2] = bad, 0.0
            A[11, 2] = bad  # times zero is nan
            with np.errstate(invalid="ignore"):
                wanted = part(grid, desc_c, A @ B)
            c = part(grid, desc_c, np.full((30, 20), np.nan, dtype))
            matmul(grid, desc_a, part(grid, desc_a, A), desc_b, part(grid, desc_b, B), desc_c, c)
            same = np.array_equal(np.isfinite(c), np.isfinite(wanted))
            yield same, f"{bad} in {np.dtype(dtype)} on {grid.shape}"
            if not np.issubdtype(dtype, np.complexfloating):  # whose infinities have many forms
                same = np.array_equal(np.isnan(c), np.isnan(wanted))
                yield same, f"nan or {bad} in {np.dtype(dtype)} on {grid.shape}"


def nan_and_inf_in_lu(_seed: int) -> Iterator[Verdict]:
    """Refused on every rank with the same words, nothing changed; large numbers are not."""
    desc = BlockCyclic(30, 40, 4, 4, 1, 2)
    for grid in grids():
        for dtype, bad in itertools.product(TYPES, (np.nan, np.inf, -np.inf)):
            whole = normal(np.random.default_rng(9), (30, 40), dtype)
            whole[21, 17] = whole[3, 18] = bad
            if np.issubdtype(dtype, np.complexfloating):
                whole[21, 17] = complex(1.0, bad)
            local = part(grid, desc, whole)
            yield refused("A holds nan or inf, first in row 21 of column 17", lu, grid, desc, local)
            same = np.array_equal(local, part(grid, desc, whole), equal_nan=True)
            yield same, f"{np.dtype(dtype)} changed on {grid.shape}"
        big = verification.local_part(grid, desc, verification.uniform(1), np.float32)
        big *= np.float32(1e38)
        big[:] = np.abs(big)
        lu(grid, desc, big)
        yield np.isfinite(big).all(), f"numbers whose sum is too large, on {grid.shape}"


def checks_catch_errors(seed: int) -> Iterator[Verdict]:
    """Right results pass and one wrong element or a NaN anywhere does not, on every grid.

    Of real matrices, or with an odd seed of complex ones.
    """
    n, dtype = 50, np.complex128 if seed % 2 else np.float64
    fills = fill_of(dtype, 1), fill_of(dtype, 2)
    desc = BlockCyclic(n, n, 8, 8)
    for grid in grids():
        A, B = (verification.local_part(grid, desc, fill, dtype) for fill in fills)
        C = np.empty_like(A)
        matmul(grid, desc, A, desc, B, desc, C)
        LU = A.copy(order="F")
        pivots = lu(grid, desc, LU)
        holder = desc.owner(33, 20, grid.shape) == grid.rank

        def residuals(
            C: Local = C,
            LU: Local = LU,
            A: Local = A,
            B: Local = B,
            grid: Grid = grid,
            pivots: Local = pivots,
        ) -> tuple[float, ...]:
            product = (grid, (desc, A), (desc, B), (desc, C))
            factors = (grid, desc, LU, pivots, fills[0])
            return (
                verification.product_residual(*product) / verification.PASSES_BELOW,
                verification.product_error(*product) / (n * EPS),
                verification.lu_residual(*factors) / verification.PASSES_BELOW,
                verification.lu_error(*factors) / (n * EPS),
            )

        right = residuals()
        yield all(value < 1 for value in right), f"right results: {right} on {grid.shape}"
        same_everywhere = COMM.bcast(right) == right
        yield same_everywhere, f"the same on every rank: {right} on {grid.shape}"
        for wrong in (1e-6, np.nan):
            if holder:
                C[-1, -1] += wrong
                LU[-1, -1] += wrong
            bad = residuals()
            yield not any(value < 1 for value in bad), f"{wrong} unnoticed: {bad} on {grid.shape}"


def fills_agree(_seed: int) -> Iterator[Verdict]:
    """A fill function gives the same matrix bit for bit on every grid."""
    desc, fill = BlockCyclic(37, 53, 5, 3, 1, 2), verification.uniform(9)
    whole = fill(np.arange(37), np.arange(53))
    yield abs(whole.mean()) < 0.05, f"mean {whole.mean()}"
    yield len(np.unique(whole)) == whole.size, "values repeat"
    yield whole.min() >= -0.5 and whole.max() < 0.5, "range"
    for grid in grids():
        gathered = verification.gather(grid, desc, verification.local_part(grid, desc, fill))
        yield gathered is None or np.array_equal(gathered, whole), f"on {grid.shape}"


class CountingPacer:
    """Counts compute sections, and what is wrongly done outside or inside of them."""

    def __init__(self) -> None:
        self.sections = self.open = self.outside = self.waits_inside = 0

    def section(self) -> CountingPacer:
        return self

    def __enter__(self) -> None:
        self.open += 1
        self.sections += 1
        assert self.open == 1, "sections nest"

    def __exit__(self, *exc: object) -> None:
        self.open -= 1

    def computes(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            self.outside += self.open == 0
            return function(*args)

        return call

    def waits(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            self.waits_inside += self.open
            return function(*args)

        return call


def paced(_seed: int) -> Iterator[Verdict]:
    """All computing happens inside sections, all waiting outside."""
    desc, names = BlockCyclic(64, 64, 8, 8), ("gemm", "getrf", "solve_lower_unit", "swap_rows")
    plain = {name: getattr(blas, name) for name in names}
    for grid in grids():
        A = verification.local_part(grid, desc, verification.uniform(1))
        C, pacer = np.empty_like(A), CountingPacer()
        for name, function in plain.items():
            setattr(blas, name, pacer.computes(function))
        grid.wait = pacer.waits(grid.wait)  # type: ignore[method-assign]
        set_pacer(cast(SharePacer, pacer))
        matmul(grid, desc, A, desc, A, desc, C)
        products = pacer.sections
        lu(grid, desc, A)
        set_pacer(None)
        yield 0 < products < pacer.sections, f"{products}, {pacer.sections} on {grid.shape}"
        yield pacer.outside == pacer.waits_inside == 0, f"{vars(pacer)} on {grid.shape}"
    sections = pacer.sections
    for name, function in plain.items():
        setattr(blas, name, function)
    for grid in grids():
        matmul(
            grid, desc, A := verification.local_part(grid, desc, np.add), desc, A, desc, A.copy()
        )
        yield pacer.sections == sections, "sections without a pacer"


def refused(word: str, call: Callable[..., object], *args: Any) -> Verdict:
    try:
        call(*args)
    except (ValueError, TypeError) as error:
        return word in str(error), f"{word}: {error}"
    return False, f"{word} was accepted"


def refusals(_seed: int) -> Iterator[Verdict]:
    """What does not fit is refused before anything is changed."""
    desc, other, short = (BlockCyclic(*s) for s in ((12, 12, 4, 4), (12, 12, 3, 4), (9, 12, 4, 4)))
    yield refused(f"the communicator has {COMM.size}", Grid, COMM, COMM.size + 1, 1)
    for grid in grids():
        A, X, S = (
            verification.local_part(grid, d, verification.uniform(1)) for d in (desc, other, short)
        )
        before = A.copy()
        yield refused("square blocks", lu, grid, other, X)
        yield refused("local part", lu, grid, desc, np.zeros((99, 1)))
        yield refused("kernels work on", lu, grid, desc, A.astype(np.int64))
        yield refused("no product", matmul, grid, desc, A, short, S, desc, A)
        yield refused("one dtype", matmul, grid, desc, A, desc, np.float32(A), desc, A)
        if min(A.shape) > 1:
            yield refused("column-major", lu, grid, desc, np.array(A, order="C"))
        if grid.rows > 1:
            yield refused("dealt out otherwise", matmul, grid, desc, A, desc, A, other, X)
        yield np.array_equal(A, before), "A was changed"


def waiting(_seed: int) -> Iterator[Verdict]:
    """Ranks nap exactly when there are more than processors, or when told to."""
    cores = len(os.sched_getaffinity(0))
    wanted = {"nap": True, "block": False}.get(os.environ.get("DQ_WAIT", ""), COMM.size > cores)
    for grid in grids():
        yield grid.naps == wanted, f"naps {grid.naps} with {COMM.size} ranks on {cores}"
        grid.wait([])
        out = np.zeros(1)
        peer = (grid.rank + 1) % grid.size, (grid.rank - 1) % grid.size
        send = grid.comm.Isend(np.array([float(grid.rank)]), peer[0])
        grid.wait([grid.comm.Irecv(out, peer[1]), send])
        yield out[0] == peer[1], f"received {out[0]}"


def grid_communicators(_seed: int) -> Iterator[Verdict]:
    """Row-major ranks; rows by column, columns by row; freed once and for all."""
    for grid in grids():
        yield grid.rank == grid.row * grid.cols + grid.col, "row-major"
        in_row, in_col = grid.row_comm.allgather(grid.col), grid.col_comm.allgather(grid.row)
        yield in_row == list(range(grid.cols)), f"row {in_row}"
        yield in_col == list(range(grid.rows)), f"column {in_col}"
        first = grid.scratch("x", (3, 4), np.float64)
        yield first.flags.f_contiguous and first.shape == (3, 4), "scratch"
        again = grid.scratch("x", (2, 2), np.float32)
        yield np.shares_memory(first, again), "scratch is kept"
        grid.free()
        yield grid.row_comm == MPI.COMM_NULL, "freed"


def main() -> None:
    story, seed = globals()[sys.argv[1]], int(sys.argv[2]) if len(sys.argv) > 2 else 0
    failures, checked = [], 0
    for right, text in story(seed):
        checked += 1
        if not right:
            failures.append(f"rank {COMM.rank}: {text}")
    everyone = COMM.gather((failures, checked))
    if everyone is not None:  # rank 0
        lines = [line for some, _ in everyone for line in some]
        print(json.dumps({"failures": lines, "checked": sum(count for _, count in everyone)}))


main()
