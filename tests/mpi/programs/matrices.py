"""Matrices for the kernels' stories: of every type, random and tied, and parts of them."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from apps.linalg import verification
from resize_lib.descriptors import BlockCyclic
from resize_lib.grid import Grid

Local = NDArray[Any]
Order = Literal["C", "F"]
TYPES: tuple[Any, ...] = (np.float64, np.float32, np.complex128, np.complex64)


def part(grid: Grid, desc: BlockCyclic, whole: Local, order: Order = "F") -> Local:
    index = np.ix_(desc.global_rows(grid.shape, grid.row), desc.global_cols(grid.shape, grid.col))
    return np.array(whole[index], order=order)


def normal(rng: np.random.Generator, shape: tuple[int, int], dtype: Any) -> Local:
    """Random numbers, of complex types in both parts."""
    drawn = rng.standard_normal(shape)
    if np.issubdtype(dtype, np.complexfloating):
        return (drawn + 1j * rng.standard_normal(shape)).astype(dtype)
    return drawn.astype(dtype)


def fill_of(dtype: Any, seed: int) -> verification.Fill:
    """A fill function that has something in both parts of complex types."""
    if np.issubdtype(dtype, np.complexfloating):
        return verification.uniform_complex(seed)
    return verification.uniform(seed)


def getrf(whole: Local) -> tuple[Local, Local, int]:
    """LAPACK's factors, pivots and first zero pivot."""
    import scipy.linalg  # 0.15 s of processor time, which most stories need not spend

    found: tuple[Local, Local, int] = scipy.linalg.get_lapack_funcs("getrf", (whole,))(whole)
    return found


def tied(m: int, n: int, rng: np.random.Generator, dtype: Any) -> Local:
    """Wilkinson's matrix with its rows shuffled: every column is all ties, all arithmetic exact.

    Rows of complex ones are turned by multiples of a right angle.
    """
    whole = np.tril(-np.ones((m, n)), -1) + np.eye(m, n)
    whole[:, -1:] = 1.0
    whole = whole[rng.permutation(m)].astype(dtype)
    if np.issubdtype(dtype, np.complexfloating):
        whole *= np.array([1, 1j, -1, -1j])[rng.integers(0, 4, size=(m, 1))]
    return whole
