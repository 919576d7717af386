"""This rank's part of each kind of array, as dq_part_t and dq_box_t describe it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from resize_lib.declared.cartesian import Cartesian
    from resize_lib.declared.dense import Array, Matrix


@dataclass(frozen=True)
class Part:
    """The fields of dq_part_t."""

    data: int
    rows: int
    cols: int
    ld: int
    first: int = 0
    mb: int = 0
    nb: int = 0
    myrow: int = 0
    mycol: int = 0
    nprow: int = 1
    npcol: int = 1


@dataclass(frozen=True)
class Box:
    """The fields of dq_box_t, one value per dimension of the array."""

    data: int
    start: tuple[int, ...]
    count: tuple[int, ...]
    stored: tuple[int, ...]
    halo: tuple[int, ...]
    shape: tuple[int, ...]
    dims: tuple[int, ...]
    coords: tuple[int, ...]


def box_of(array: Cartesian) -> Box:
    """The block on the present grid; its address holds until the next resize.

    C programs declare arrays that are cut along every dimension, so `dims` has one value for each.
    """
    inner, local = array.ranges, array.local
    assert local.flags.c_contiguous, "row-major, as dq.h says"
    return Box(
        data=local.ctypes.data,
        start=tuple(r.start for r in inner),
        count=tuple(len(r) for r in inner),
        stored=local.shape,
        halo=array.desc.widths(),
        shape=array.shape,
        dims=array.dims,
        coords=array.coords,
    )


def block_part(array: Array) -> Part:
    """The items of a block array, row-major."""
    rows, cols = array.local.shape
    first = int(array.indices[0]) if rows else 0
    return Part(array.local.ctypes.data, rows, cols, cols, first)


def matrix_part(matrix: Matrix, grid: tuple[int, int, int, int]) -> Part:
    """The part of a block-cyclic matrix on `grid`: its rows, columns, my row, my column."""
    nprow, npcol, myrow, mycol = grid
    rows, cols = matrix.local.shape
    assert matrix.local.flags.f_contiguous, "ScaLAPACK's order"
    return Part(
        matrix.local.ctypes.data, rows, cols, max(1, rows), 0,
        matrix.desc.mb, matrix.desc.nb, myrow, mycol, nprow, npcol,
    )  # fmt: skip
