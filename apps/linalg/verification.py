"""Is the result right? Checks that need no second copy of the problem on one rank.

Matrices are made by *fill functions* of the global indices, so any grid, and any sequence of
resizes, gives the same matrix bit for bit, and a check can make the original again, in parts or
with its rows permuted, instead of keeping it.

Residuals are scaled so that a right result gives a number well below 16 (the threshold of LAPACK's
own tests) at every size, and a wrong one a huge number. Every check is collective over the grid
and returns the same on all ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from mpi4py import MPI
from numpy.typing import DTypeLike, NDArray

from apps.linalg.exchange import net_permutation
from apps.linalg.local_part import LocalPart, require_local
from apps.linalg.summa import matmul
from resize_lib.descriptors import BlockCyclic
from resize_lib.grid import Grid

Matrix = NDArray[Any]
Index = NDArray[np.int64]
Fill: TypeAlias = Callable[[NDArray[Any], NDArray[Any]], Matrix]

PASSES_BELOW = 16.0


def uniform(seed: int = 0) -> Fill:
    """A fill function of independent-looking values in [-0.5, 0.5), a pure function of the indices.

    The function takes global row and column indices, either two vectors (and gives their outer
    array) or arrays that broadcast. Each value is the index pair through the mixing function of
    SplitMix64 (Steele, Lea and Flood 2014): no state, so any rank makes any part.
    """
    start = np.uint64(seed % 2**64)

    def fill(rows: NDArray[Any], cols: NDArray[Any]) -> Matrix:
        i, j = np.asarray(rows).astype(np.uint64), np.asarray(cols).astype(np.uint64)
        if i.ndim == j.ndim == 1:
            i = i[:, np.newaxis]
        i = _mixed(i * np.uint64(0x9E3779B97F4A7C15) + start)
        values = _mixed(i ^ (j * np.uint64(0xD1B54A32D192ED03)))
        return (values >> np.uint64(11)) * 2.0**-53 - 0.5

    return fill


def uniform_complex(seed: int = 0) -> Fill:
    """As ``uniform``, in both parts of complex numbers."""
    real, imaginary = uniform(2 * seed), uniform(2 * seed + 1)

    def fill(rows: NDArray[Any], cols: NDArray[Any]) -> Matrix:
        return real(rows, cols) + 1j * imaginary(rows, cols)

    return fill


def _mixed(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = z ^ (z >> np.uint64(31))
    return mixed


def local_part(grid: Grid, desc: BlockCyclic, fill: Fill, dtype: DTypeLike = np.float64) -> Matrix:
    """This rank's part of the matrix that ``fill`` makes, column-major."""
    rows = desc.global_rows(grid.shape, grid.row)
    cols = desc.global_cols(grid.shape, grid.col)
    return _filled(fill, rows, cols, np.dtype(dtype))


def _filled(fill: Fill, rows: Index, cols: Index, dtype: np.dtype[Any]) -> Matrix:
    part = np.empty((len(rows), len(cols)), dtype=dtype, order="F")
    for low in range(0, len(cols), 64):  # in slices: fill functions use large temporaries
        some = slice(low, low + 64)
        part[:, some] = fill(rows[:, np.newaxis], cols[np.newaxis, some])
    return part


def gather(grid: Grid, desc: BlockCyclic, local: Matrix) -> Matrix | None:
    """The whole matrix on grid rank 0, None elsewhere: for small ones."""
    require_local(grid, desc, local, "gather")
    parts = grid.comm.gather(local)
    if parts is None:
        return None
    whole = np.empty(desc.shape, dtype=local.dtype)
    for rank, part in enumerate(parts):
        row, col = grid.shape.coords(rank)
        rows, cols = desc.global_rows(grid.shape, row), desc.global_cols(grid.shape, col)
        whole[np.ix_(rows, cols)] = part
    return whole


def times(grid: Grid, desc: BlockCyclic, local: Matrix, X: Matrix) -> Matrix:
    """The matrix times the columns of ``X``; both ``X`` (n x v) and the result on every rank."""
    result = np.zeros((desc.m, X.shape[1]), dtype=np.result_type(local, X, np.float64))
    cols = desc.global_cols(grid.shape, grid.col)
    result[desc.global_rows(grid.shape, grid.row)] = local @ X[cols]
    grid.comm.Allreduce(MPI.IN_PLACE, result)
    return result


def norm_1(grid: Grid, desc: BlockCyclic, local: Matrix) -> float:
    """The largest column sum of absolute values of the whole matrix; nan if it holds one."""
    sums = np.zeros(desc.n)
    sums[desc.global_cols(grid.shape, grid.col)] = np.abs(local).sum(axis=0, dtype=np.float64)
    grid.comm.Allreduce(MPI.IN_PLACE, sums)
    return float(sums.max(initial=0.0))


def product_residual(
    grid: Grid,
    a: tuple[BlockCyclic, Matrix],
    b: tuple[BlockCyclic, Matrix],
    c: tuple[BlockCyclic, Matrix],
) -> float:
    """How far C is from A B: largest |(C - A B) x| / (k ε |A| |B| |x|), element by element.

    Each of ``a``, ``b``, ``c`` is a descriptor and a local part. Two vectors x of random signs, so
    that one wrong element always shows, and nearly everything else does. n² work.

    Source: R. Freivalds, Probabilistic machines can use less running time (1977).
    """
    (desc_a, A), (desc_b, B), (desc_c, C) = a, b, c
    # A fixed seed: every rank needs the same vectors, and a failure must come again.
    X = np.random.default_rng(1977).choice([-1.0, 1.0], size=(desc_b.n, 2))
    error = np.abs(times(grid, desc_c, C, X) - times(grid, desc_a, A, times(grid, desc_b, B, X)))
    bound = times(grid, desc_a, np.abs(A), times(grid, desc_b, np.abs(B), np.abs(X)))
    rounding = desc_a.n * np.finfo(C.dtype).eps
    unequal = error != 0.0
    if not unequal.any():
        return 0.0
    with np.errstate(divide="ignore"):
        return float((error[unequal] / bound[unequal] / rounding).max())


def lu_residual(grid: Grid, desc: BlockCyclic, LU: Matrix, ipiv: Index, fill: Fill) -> float:
    """‖PA - LU‖ / (‖A‖ n ε) in the 1-norm, A being the matrix that ``fill`` makes.

    ``LU`` and ``ipiv`` as ``lu`` leaves them. Takes one distributed product and three more arrays
    of the size of the local part.
    """
    local, depth = LocalPart(grid, desc), min(desc.m, desc.n)
    rows = desc.global_rows(grid.shape, grid.row)
    cols = desc.global_cols(grid.shape, grid.col)
    lower = np.array(LU[:, : local.col(depth)], order="F")
    lower[rows[:, None] < cols[None, : lower.shape[1]]] = 0.0
    lower[rows[:, None] == cols[None, : lower.shape[1]]] = 1.0
    upper = np.array(LU[: local.row(depth)], order="F")
    upper[rows[: upper.shape[0], None] > cols[None, :]] = 0.0
    product = np.empty_like(LU, order="F")
    b, offsets = desc.mb, (desc.rsrc, desc.csrc)
    desc_l = BlockCyclic(desc.m, depth, b, b, *offsets)
    desc_u = BlockCyclic(depth, desc.n, b, b, *offsets)
    matmul(grid, desc_l, lower, desc_u, upper, desc, product)
    original = _filled(fill, net_permutation(0, ipiv, desc.m)[rows], cols, LU.dtype)
    error = norm_1(grid, desc, original - product)
    return _scaled(error, norm_1(grid, desc, original), max(desc.shape), LU.dtype)


def _scaled(error: float, scale: float, n: int, dtype: np.dtype[Any]) -> float:
    if error == 0.0:
        return 0.0
    return float(error / (scale * n * np.finfo(dtype).eps)) if scale else float("inf")


def product_error(
    grid: Grid,
    a: tuple[BlockCyclic, Matrix],
    b: tuple[BlockCyclic, Matrix],
    c: tuple[BlockCyclic, Matrix],
) -> float:
    """Largest |C - numpy's A @ B| over the largest |A @ B|: gathers all three; for small ones."""
    whole = [gather(grid, desc, local) for desc, local in (a, b, c)]
    error = None
    if whole[0] is not None and whole[1] is not None and whole[2] is not None:
        error = _relative(whole[2], whole[0] @ whole[1])
    return float(grid.comm.bcast(error))


def lu_error(grid: Grid, desc: BlockCyclic, LU: Matrix, ipiv: Index, fill: Fill) -> float:
    """Largest |L U - PA| over the largest |A|, by numpy on gathered matrices; for small ones."""
    whole, error = gather(grid, desc, LU), None
    if whole is not None:
        depth = min(desc.m, desc.n)
        lower, upper = np.tril(whole[:, :depth], -1) + np.eye(desc.m, depth), np.triu(whole[:depth])
        rows = net_permutation(0, ipiv, desc.m)
        error = _relative(lower @ upper, _filled(fill, rows, np.arange(desc.n), LU.dtype))
    return float(grid.comm.bcast(error))


def _relative(value: Matrix, wanted: Matrix) -> float:
    error = float(np.abs(value - wanted).max(initial=0.0))
    return error / float(np.abs(wanted).max()) if error else 0.0
