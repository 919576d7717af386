"""This rank's part of each kind of array, as the fields of dq_part_t and dq_box_t."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from resize_lib.declared.cartesian import Cartesian
    from resize_lib.declared.dense import Array, Matrix

Fields: TypeAlias = dict[str, Any]  # by name; `data` is an address


def box_of(array: Cartesian) -> Fields:
    """The block on the present grid; its address holds until the next resize.

    One value per dimension. C programs declare arrays that are cut along every dimension, so
    `dims` has one value for each.
    """
    inner, local = array.ranges, array.local
    assert local.flags.c_contiguous, "row-major, as dq.h says"
    return {
        "data": local.ctypes.data,
        "start": tuple(r.start for r in inner),
        "count": tuple(len(r) for r in inner),
        "stored": local.shape,
        "halo": array.desc.widths(),
        "shape": array.shape,
        "dims": array.dims,
        "coords": array.coords,
    }


def block_part(array: Array) -> Fields:
    """The items of a block array, row-major."""
    rows, cols = array.local.shape
    where = {"first": int(array.indices[0]) if rows else 0, "mb": 0, "nb": 0}
    return {"data": array.local.ctypes.data, "rows": rows, "cols": cols, "ld": cols, **where,
            "nprow": 1, "npcol": 1, "myrow": 0, "mycol": 0}  # fmt: skip


def matrix_part(matrix: Matrix, grid: tuple[int, int, int, int]) -> Fields:
    """The part of a block-cyclic matrix on `grid`: its rows, columns, my row, my column."""
    rows, cols = matrix.local.shape
    assert matrix.local.flags.f_contiguous, "ScaLAPACK's order"
    where = {"first": 0, "mb": matrix.desc.mb, "nb": matrix.desc.nb}
    place = dict(zip(("nprow", "npcol", "myrow", "mycol"), grid, strict=True))
    return {"data": matrix.local.ctypes.data, "rows": rows, "cols": cols, "ld": max(1, rows),
            **where, **place}  # fmt: skip
