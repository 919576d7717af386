"""Parts that were written on one grid, as local parts on another.

The redistribution plan says which items of each old part a new one needs; they are copied from the
file into place, and of the file only what is needed is read. Data that the application packs itself
was packed for the grid it was on: the old ranks' values are made again from it and packed anew for
the grid that is now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resize_lib.descriptors import Custom, Distributed, ProcessGrid
from resize_lib.protection.errors import ProtectionError
from resize_lib.protection.partfile import Layout, Part
from resize_lib.redistribution.arena import Order
from resize_lib.redistribution.copying import Part as Items
from resize_lib.redistribution.copying import copy_runs
from resize_lib.redistribution.plan import plan_redistribution

Open = Callable[[int], Part]  # the part of an old rank
Empty = Callable[[tuple[int, ...], np.dtype[Any], Order], NDArray[Any]]


def restore_array(
    name: str,
    open_old: Open,
    layout: Layout,
    dtype: np.dtype[Any],
    order: Order,
    grid: ProcessGrid,
    rank: int,
    empty: Empty,
) -> NDArray[Any]:
    """The part of grid rank `rank` on `grid`, from the parts on the old grid.

    Raises:
        ProtectionError: the copy has another array under this name: other shape or dtype.
    """
    first = open_old(0)
    old, old_grid = first.layout(name), first.grid
    held = first.array(name).dtype
    if old.shape != layout.shape or held != dtype:
        raise ProtectionError(
            f"{name!r} is declared as {layout.shape} of {dtype}, its copy is {old.shape} of {held}"
        )
    plan = plan_redistribution(old, old_grid, layout, grid, dtype.itemsize)
    local = empty(layout.local_shape(grid, rank), dtype, order)
    for old_rank in range(old_grid.size):
        transfer = plan.transfer(old_rank, rank)
        if transfer.items:
            source = open_old(old_rank).array(name)
            _copy(transfer.rows, transfer.cols, source, local, layout, order)
    return local


def _copy(
    rows: Any, cols: Any, source: NDArray[Any], local: NDArray[Any], layout: Distributed, order: str
) -> None:
    turned = layout.dimensions == 2 and order == "F"
    parts = [
        Items.of(part, dimensions=layout.dimensions, transposed=turned) for part in (source, local)
    ]
    copy_runs(*((cols, rows) if turned else (rows, cols)), *parts)


def pack_for_itself(desc: Custom, value: Any, grid: ProcessGrid, rank: int) -> list[bytes]:
    """A rank's own data as pieces for the very grid that it is on.

    Raises:
        ProtectionError: pack did not return one piece per rank.
    """
    pieces = list(map(bytes, desc.pack(value, grid, rank, grid)))
    if len(pieces) != grid.size:
        raise ProtectionError(
            f"{desc.label!r}: pack returned {len(pieces)} pieces for {grid.size} ranks"
        )
    return pieces


def repack(
    name: str, desc: Custom, open_old: Open, old_ranks: Sequence[int], grid: ProcessGrid
) -> list[list[tuple[int, bytes]]]:
    """Make the values of some old ranks again and pack them for `grid`.

    Returns for each rank of `grid` its pieces, as (old rank, piece).
    """
    old_grid = open_old(0).grid
    result: list[list[tuple[int, bytes]]] = [[] for _ in range(grid.size)]
    for old_rank in old_ranks:
        pieces = [open_old(r).pieces(name)[old_rank] for r in range(old_grid.size)]
        value = desc.unpack(pieces, old_grid, old_rank, old_grid)
        for rank, piece in enumerate(desc.pack(value, old_grid, old_rank, grid)):
            result[rank].append((old_rank, bytes(piece)))
    return result


def unpack_anew(
    desc: Custom, pieces: Sequence[tuple[int, bytes]], old_grid: ProcessGrid, grid: ProcessGrid,
    rank: int,
) -> Any:  # fmt: skip
    """A rank's value from the pieces that `repack` made for it anywhere."""
    in_order = [piece for _, piece in sorted(pieces)]
    return desc.unpack(in_order, old_grid, rank, grid)
