"""The four BLAS and LAPACK routines the kernels need, called by pointer on numpy views.

numpy's own products cannot update in place and scipy's wrappers copy sub-matrices; here a view
goes to the library as it is, so long as one of its two strides is the item size. Column-major
views suit all routines; row-major ones are passed as their transposes where that is possible.
float64 and float32; one call costs a few µs on top of the arithmetic.
"""

from __future__ import annotations

import ctypes
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from resize_lib.linalg.library import library

Real: TypeAlias = NDArray[Any]  # float64 or float32, 2-D

_LETTER = {np.dtype(np.float64): "d", np.dtype(np.float32): "s"}
_SCALAR: dict[str, Any] = {"d": ctypes.c_double, "s": ctypes.c_float}
_ref = ctypes.byref


def letter(dtype: np.dtype[Any]) -> str:
    """The routine prefix of ``dtype``.

    Raises:
        TypeError: neither float64 nor float32.
    """
    try:
        return _LETTER[dtype]
    except KeyError:
        raise TypeError(f"kernels work on float64 and float32, not {dtype}") from None


def _address(array: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.__array_interface__["data"][0])


def layout(matrix: Real) -> tuple[bytes, int]:
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


def _column_major(matrix: Real) -> int:
    order, lead = layout(matrix)
    if order != b"N":
        raise ValueError(f"a column-major matrix is needed, not strides {matrix.strides}")
    return lead


def gemm(alpha: float, a: Real, b: Real, beta: float, c: Real) -> None:
    """C := alpha A B + beta C, each operand row- or column-major. beta = 0: C need not be set."""
    kind = letter(c.dtype)
    m, k = a.shape
    n = b.shape[1]
    if b.shape[0] != k or c.shape != (m, n) or a.dtype != c.dtype or b.dtype != c.dtype:
        raise ValueError(f"{a.shape} {a.dtype} x {b.shape} {b.dtype} into {c.shape} {c.dtype}")
    if m == 0 or n == 0:
        return
    if k == 0:
        np.multiply(c, beta, out=c) if beta else c.fill(0)
        return
    order_c, ld_c = layout(c)
    if order_c == b"T":  # the transposed product, whose result is column-major
        gemm(alpha, b.T, a.T, beta, c.T)
        return
    (order_a, ld_a), (order_b, ld_b) = layout(a), layout(b)
    lib, real = library(), _SCALAR[kind]
    i = lib.c_int
    lib.functions[kind + "gemm"](
        *(order_a, order_b, _ref(i(m)), _ref(i(n)), _ref(i(k)), _ref(real(alpha))),
        *(_address(a), _ref(i(ld_a)), _address(b), _ref(i(ld_b))),
        *(_ref(real(beta)), _address(c), _ref(i(ld_c))),
    )


def solve_lower_unit(lower: Real, b: Real) -> None:
    """B := L⁻¹ B in place, L the unit lower triangle of column-major ``lower`` (trsm)."""
    kind = letter(b.dtype)
    m, n = b.shape
    if lower.shape != (m, m) or lower.dtype != b.dtype:
        raise ValueError(f"triangle {lower.shape} {lower.dtype} for {b.shape} {b.dtype}")
    if m == 0 or n == 0:
        return
    ld_l, ld_b = _column_major(lower), _column_major(b)
    lib, real = library(), _SCALAR[kind]
    i = lib.c_int
    lib.functions[kind + "trsm"](
        *(b"L", b"L", b"N", b"U", _ref(i(m)), _ref(i(n)), _ref(real(1.0))),
        *(_address(lower), _ref(i(ld_l)), _address(b), _ref(i(ld_b))),
    )


def getrf(a: Real) -> tuple[NDArray[np.int64], int | None]:
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


def swap_rows(a: Real, pivots: NDArray[np.int64]) -> None:
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
