"""The arithmetic of one rank: four BLAS and LAPACK routines, called by pointer on numpy views.

numpy's own products cannot update in place and scipy's wrappers copy sub-matrices; here a view
goes to the library as it is, so long as one of its two strides is the item size. Column-major
views suit all routines; row-major ones are passed as their transposes where that is possible.
float32, float64, complex64 and complex128; one call costs a few µs on top of the arithmetic. One
triangular solve is our own, made of those four: see ``solve_lower_unit_blocked``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from apps.linalg.blas_library import library

Matrix: TypeAlias = NDArray[Any]  # of a type in _LETTER, 2-D

# Of solve_lower_unit_blocked: rows of an inverted block; columns solved for at a time, so that they
# stay in cache; and the number of columns below which trsm is as fast.
_INVERSE_ROWS = 32
_SOLVE_COLS = 512
_FEW_COLS = 192

_LETTER = {
    np.dtype(np.float32): "s",
    np.dtype(np.float64): "d",
    np.dtype(np.complex64): "c",
    np.dtype(np.complex128): "z",
}
# complex numbers go as two reals in memory: ctypes has no type for them before Python 3.14
_SCALAR: dict[str, Callable[[Any], Any]] = {
    "s": ctypes.c_float,
    "d": ctypes.c_double,
    "c": lambda value: (ctypes.c_float * 2)(value.real, value.imag),
    "z": lambda value: (ctypes.c_double * 2)(value.real, value.imag),
}
_ref = ctypes.byref


def letter(dtype: np.dtype[Any]) -> str:
    """The routine prefix of ``dtype``.

    Raises:
        TypeError: none of those that BLAS has.
    """
    try:
        return _LETTER[dtype]
    except KeyError:
        known = ", ".join(map(str, _LETTER))
        raise TypeError(f"kernels work on {known}, not {dtype}") from None


def _address(array: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.__array_interface__["data"][0])


def storage_order(matrix: Matrix) -> tuple[bytes, int]:
    """(b"N", leading dimension) of a column-major view, (b"T", ...) of a row-major one.

    Strides of an extent of 1 mean nothing and are not looked at.
    """
    rows, cols = matrix.shape
    item = matrix.itemsize
    if rows <= 1 or matrix.strides[0] == item:
        lead = matrix.strides[1] // item if cols > 1 else rows
        if lead >= max(1, rows):
            return b"N", lead
    if cols <= 1 or matrix.strides[1] == item:
        lead = matrix.strides[0] // item if rows > 1 else cols
        if lead >= max(1, cols):
            return b"T", lead
    raise ValueError(f"a matrix with strides {matrix.strides} has no contiguous rows or columns")


def _column_major(matrix: Matrix) -> int:
    order, lead = storage_order(matrix)
    if order != b"N":
        raise ValueError(f"a column-major matrix is needed, not strides {matrix.strides}")
    return lead


def gemm(alpha: complex, a: Matrix, b: Matrix, beta: complex, c: Matrix) -> None:
    """C := alpha A B + beta C, each operand row- or column-major. beta = 0: C need not be set."""
    kind = letter(c.dtype)
    m, k = a.shape
    n = b.shape[1]
    if b.shape[0] != k or c.shape != (m, n) or a.dtype != c.dtype or b.dtype != c.dtype:
        raise ValueError(f"{a.shape} {a.dtype} x {b.shape} {b.dtype} into {c.shape} {c.dtype}")
    if m == 0 or n == 0:
        return
    if k == 0:
        # 0 * nan would be nan: with beta = 0 C may hold anything
        np.multiply(c, beta, out=c) if beta else c.fill(0)
        return
    order_c, ld_c = storage_order(c)
    # BLAS can transpose what it reads, never what it writes
    if order_c == b"T":  # the transposed product, whose result is column-major
        gemm(alpha, b.T, a.T, beta, c.T)
        return
    (order_a, ld_a), (order_b, ld_b) = storage_order(a), storage_order(b)
    lib, scalar = library(), _SCALAR[kind]
    i = lib.c_int  # Fortran takes every argument by reference, integers as wide as the library's
    lib.functions[kind + "gemm"](
        *(order_a, order_b, _ref(i(m)), _ref(i(n)), _ref(i(k)), _ref(scalar(alpha))),
        *(_address(a), _ref(i(ld_a)), _address(b), _ref(i(ld_b))),
        *(_ref(scalar(beta)), _address(c), _ref(i(ld_c))),
    )


def solve_lower_unit(lower: Matrix, b: Matrix) -> None:
    """B := L⁻¹ B in place, L the unit lower triangle of column-major ``lower`` (trsm)."""
    kind = letter(b.dtype)
    m, n = b.shape
    if lower.shape != (m, m) or lower.dtype != b.dtype:
        raise ValueError(f"triangle {lower.shape} {lower.dtype} for {b.shape} {b.dtype}")
    if m == 0 or n == 0:
        return
    ld_l, ld_b = _column_major(lower), _column_major(b)
    lib, scalar = library(), _SCALAR[kind]
    i = lib.c_int
    lib.functions[kind + "trsm"](
        *(b"L", b"L", b"N", b"U", _ref(i(m)), _ref(i(n)), _ref(scalar(1.0))),
        *(_address(lower), _ref(i(ld_l)), _address(b), _ref(i(ld_b))),
    )


def solve_lower_unit_blocked(lower: Matrix, b: Matrix) -> None:
    """As ``solve_lower_unit``, faster where B has many columns; both column-major.

    OpenBLAS's trsm reaches a third of gemm's speed on the 64 to 512 rows of a strip of LU. Here the
    diagonal blocks of 32 rows are inverted (trsm on the identity, cheap) and all the rest is gemm,
    halving the triangle each time. Inverting such small blocks costs no accuracy that matters:
    the multipliers of partial pivoting are at most 1 (complex ones √2: LAPACK compares the sums of
    the parts' magnitudes), and the inverse of a block stays of moderate size.

    Source: Du Croz and Higham, Stability of methods for matrix inversion (1992), on block methods.
    """
    height, columns = b.shape
    if columns < _FEW_COLS or height <= _INVERSE_ROWS:
        solve_lower_unit(lower, b)
        return
    inverses = []
    for first in range(0, height, _INVERSE_ROWS):
        block = lower[first : first + _INVERSE_ROWS, first : first + _INVERSE_ROWS]
        inverse = np.eye(block.shape[0], dtype=b.dtype, order="F")
        solve_lower_unit(block, inverse)
        inverses.append(inverse)
    work = np.empty((_INVERSE_ROWS, min(columns, _SOLVE_COLS)), dtype=b.dtype, order="F")
    for low in range(0, columns, _SOLVE_COLS):
        _solve_blocks(lower, inverses, b[:, low : low + _SOLVE_COLS], work)


def _solve_blocks(lower: Matrix, inverses: list[Matrix], b: Matrix, work: Matrix) -> None:
    """Solve with ``lower``, whose diagonal blocks have ``inverses``, for a few columns ``b``."""
    if len(inverses) == 1:
        right = work[: b.shape[0], : b.shape[1]]
        right[:] = b  # gemm must not read what it writes
        gemm(1.0, inverses[0], right, 0.0, b)
        return
    half = len(inverses) // 2
    split = half * _INVERSE_ROWS
    top, bottom = b[:split], b[split:]
    _solve_blocks(lower[:split, :split], inverses[:half], top, work)
    gemm(-1.0, lower[split:, :split], top, 1.0, bottom)
    _solve_blocks(lower[split:, split:], inverses[half:], bottom, work)


def getrf(a: Matrix) -> tuple[NDArray[np.int64], int | None]:
    """LU with partial pivoting of a column-major matrix, in place.

    Returns the row exchanged with row i, for each i (zero-based), and the first i with
    U(i, i) exactly zero (the factorization is complete all the same), or None.
    """
    kind = letter(a.dtype)
    m, n = a.shape
    if min(m, n) == 0:
        return np.empty(0, dtype=np.int64), None
    lead = _column_major(a)
    lib = library()
    pivots = np.empty(min(m, n), dtype=lib.int_dtype)
    i, info = lib.c_int, lib.c_int(0)
    lib.functions[kind + "getrf"](
        _ref(i(m)), _ref(i(n)), _address(a), _ref(i(lead)), _address(pivots), _ref(info)
    )
    if info.value < 0:  # a wrong argument: ours, not the data's
        raise RuntimeError(f"{kind}getrf refused argument {-info.value} ({m} x {n}, {lead})")
    return pivots.astype(np.int64) - 1, info.value - 1 if info.value else None


def swap_rows(a: Matrix, pivots: NDArray[np.int64]) -> None:
    """Exchange row i of column-major ``a`` with row ``pivots[i]``, for i = 0, 1, … (laswp).

    ``pivots`` are zero-based rows of ``a``.
    """
    if a.shape[1] == 0 or len(pivots) == 0:
        return
    lib = library()
    lead, i = _column_major(a), lib.c_int
    one_based = (pivots + 1).astype(lib.int_dtype)
    lib.functions[letter(a.dtype) + "laswp"](
        *(_ref(i(a.shape[1])), _address(a), _ref(i(lead)), _ref(i(1))),
        *(_ref(i(len(pivots))), _address(one_based), _ref(i(1))),
    )
