"""Solving with a unit lower triangle, faster than trsm where there are many columns.

OpenBLAS's trsm reaches a third of gemm's speed on the 64 to 512 rows of a strip. Here the diagonal
blocks of 32 rows are inverted (trsm on the identity, cheap) and all the rest is gemm, halving the
triangle each time. Inverting such small blocks costs no accuracy that matters: the multipliers of
partial pivoting are at most 1, and the inverse of a block stays of moderate size.

Source: Du Croz and Higham, Stability of methods for matrix inversion (1992), on block methods.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from resize_lib.linalg import blas

Real = NDArray[Any]

_BLOCK = 32  # rows of an inverted block
_SLICE = 512  # columns solved for at a time: they stay in cache
_FEW_COLUMNS = 192  # below, trsm is as fast


def solve(lower: Real, b: Real) -> None:
    """B := L⁻¹ B in place; L is the unit lower triangle of ``lower``, both column-major. Local."""
    height, columns = b.shape
    if columns < _FEW_COLUMNS or height <= _BLOCK:
        blas.solve_lower_unit(lower, b)
        return
    inverses = []
    for first in range(0, height, _BLOCK):
        block = lower[first : first + _BLOCK, first : first + _BLOCK]
        inverse = np.eye(block.shape[0], dtype=b.dtype, order="F")
        blas.solve_lower_unit(block, inverse)
        inverses.append(inverse)
    work = np.empty((_BLOCK, min(columns, _SLICE)), dtype=b.dtype, order="F")
    for low in range(0, columns, _SLICE):
        _solve_blocks(lower, inverses, b[:, low : low + _SLICE], work)


def _solve_blocks(lower: Real, inverses: list[Real], b: Real, work: Real) -> None:
    """The blocks of ``lower``, whose diagonal ones have ``inverses``, for few columns ``b``."""
    if len(inverses) == 1:
        right = work[: b.shape[0], : b.shape[1]]
        right[:] = b
        blas.gemm(1.0, inverses[0], right, 0.0, b)
        return
    half = len(inverses) // 2
    split = half * _BLOCK
    top, bottom = b[:split], b[split:]
    _solve_blocks(lower[:split, :split], inverses[:half], top, work)
    blas.gemm(-1.0, lower[split:, :split], top, 1.0, bottom)
    _solve_blocks(lower[split:, split:], inverses[half:], bottom, work)
