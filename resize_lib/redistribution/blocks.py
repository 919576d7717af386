"""Blocks of items in local parts and messages, copied by one strided numpy copy per pair of runs.

Items are moved as raw bytes: an item is ``itemsize`` times whatever stays whole, and adjacent
items of a row that stay adjacent are moved as one wide item. The dtype plays no part, so any dtype
without references moves bit by bit. Rows are the outer dimension everywhere; a part in Fortran
order is seen transposed (``Part.of``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from resize_lib.redistribution.runs import Run, Runs, items_of

Array = NDArray[np.generic]
RawBytes = NDArray[np.uint8]


def address_of(array: Array) -> int:
    """Address of the first item of ``array``."""
    address: int = array.__array_interface__["data"][0]
    return address


def byte_bounds(array: Array) -> tuple[int, int]:
    """First address of ``array``'s memory and the one after the last, whatever its strides."""
    low = high = address_of(array)
    if array.size:
        steps = [
            (extent - 1) * step for extent, step in zip(array.shape, array.strides, strict=True)
        ]
        low += sum(step for step in steps if step < 0)
        high += sum(step for step in steps if step > 0) + array.itemsize
    return low, high


def is_item_contiguous(array: Array, dimensions: int) -> bool:
    """Whether all behind the first ``dimensions`` is contiguous, as ``Part`` needs it to be."""
    step = array.itemsize
    trailing = zip(array.shape[dimensions:], array.strides[dimensions:], strict=True)
    for extent, stride in reversed(list(trailing)):
        if extent > 1 and stride != step:
            return False
        step *= extent
    return True


@dataclass(frozen=True, slots=True)
class Part:
    """One rank's local part as raw items: an address and two strides in bytes.

    ``keeper`` keeps the memory alive. A 1-D array is one column of items, each as wide as its
    trailing dimensions.
    """

    address: int
    item: int  # bytes
    row_stride: int
    col_stride: int
    keeper: Array

    @classmethod
    def of(cls, array: Array, *, dimensions: int, transposed: bool) -> Part:
        """See a local array with ``dimensions`` (1 or 2) distributed axes as raw items.

        Trailing dimensions must be contiguous. ``transposed``: rows and columns change places,
        which the runs used with this part must do as well.
        """
        item = array.itemsize * prod(array.shape[dimensions:])
        strides = (*array.strides[:dimensions], item)
        row_stride, col_stride = (strides[1], strides[0]) if transposed else strides[:2]
        return cls(address_of(array), item, row_stride, col_stride, array)

    def at(self, row: int, col: int) -> int:
        """Address of the item at local (``row``, ``col``)."""
        return self.address + row * self.row_stride + col * self.col_stride


class _Memory:
    """Raw memory as an object that numpy accepts; keeps nothing alive."""

    __slots__ = ("__array_interface__",)

    def __init__(
        self, address: int, item: int, shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> None:
        self.__array_interface__ = {
            "data": (address, False),
            "shape": shape,
            "strides": strides,
            "typestr": f"|V{item}",
            "version": 3,
        }


Strides4 = tuple[int, int, int, int]


def _views(
    row: Run, col: Run, item: int, source: tuple[int, Strides4], destination: tuple[int, Strides4]
) -> tuple[Array, Array]:
    """One row run x one column run of both sides, which are (address, strides in bytes).

    Returns where to copy to, and what.
    """
    (source_at, source_strides), (destination_at, destination_strides) = source, destination
    shape: tuple[int, ...] = (row.count, row.length, col.count, col.length)
    dimensions = 4
    # Items that are adjacent on both sides are one wide item: numpy copies fewer and longer items.
    if source_strides[3] == destination_strides[3] == item:
        item, dimensions = item * col.length, 3
        if source_strides[2] == destination_strides[2] == item:
            item, dimensions = item * col.count, 2
    shape = shape[:dimensions]
    return (
        np.asarray(_Memory(destination_at, item, shape, destination_strides[:dimensions])),
        np.asarray(_Memory(source_at, item, shape, source_strides[:dimensions])),
    )


def _source_strides(part: Part, row: Run, col: Run) -> Strides4:
    rows, cols = part.row_stride, part.col_stride
    return row.source_stride * rows, rows, col.source_stride * cols, cols


def _destination_strides(part: Part, row: Run, col: Run) -> Strides4:
    rows, cols = part.row_stride, part.col_stride
    return row.destination_stride * rows, rows, col.destination_stride * cols, cols


def _message_strides(row: Run, col: Run, item: int) -> Strides4:
    width = col.items * item
    return row.length * width, width, col.length * item, item


def contiguous_address(rows: Runs, cols: Runs, part: Part, *, old: bool) -> int | None:
    """Address of the items in ``part`` if they lie there as in a message: contiguous.

    ``old``: ``part`` is the old one. None if they must be gathered. A share of contiguous rows is
    contiguous.
    """
    if len(rows) != 1 or len(cols) != 1 or rows[0].count != 1 or cols[0].count != 1:
        return None
    row, col = rows[0], cols[0]
    whole_row = part.col_stride == part.item or col.length == 1
    adjoining = row.length == 1 or part.row_stride == col.length * part.item
    if not whole_row or not adjoining:
        return None
    return part.at(row.source, col.source) if old else part.at(row.destination, col.destination)


def views_of(
    rows: Runs, cols: Runs, source: Part, destination: Part
) -> Iterator[tuple[Array, Array]]:
    """For each pair of runs: where to copy to, and what. The views keep no memory alive."""
    for row in rows:
        for col in cols:
            yield _views(
                row,
                col,
                source.item,
                (source.at(row.source, col.source), _source_strides(source, row, col)),
                (
                    destination.at(row.destination, col.destination),
                    _destination_strides(destination, row, col),
                ),
            )


def copy_runs(rows: Runs, cols: Runs, source: Part, destination: Part) -> None:
    """Copy between two parts: of this process, or one of another process's memory."""
    copy_views(views_of(rows, cols, source, destination))


def copy_views(views: Iterable[tuple[Array, Array]]) -> None:
    """Copy pairs of where to, and what."""
    for to, what in views:
        np.copyto(to, what)


def packing_views(
    rows: Runs, cols: Runs, source: Part, message: RawBytes
) -> Iterator[tuple[Array, Array]]:
    """How items are gathered into ``message`` (``message_bytes`` long): see ``views_of``."""
    at = address_of(message)
    for row in rows:
        for col in cols:
            yield _views(
                row,
                col,
                source.item,
                (source.at(row.source, col.source), _source_strides(source, row, col)),
                (at, _message_strides(row, col, source.item)),
            )
            at += row.items * col.items * source.item


def unpacking_views(
    rows: Runs, cols: Runs, message: RawBytes, destination: Part
) -> Iterator[tuple[Array, Array]]:
    """How ``message``, gathered as above, is scattered to its places."""
    at = address_of(message)
    for row in rows:
        for col in cols:
            yield _views(
                row,
                col,
                destination.item,
                (at, _message_strides(row, col, destination.item)),
                (
                    destination.at(row.destination, col.destination),
                    _destination_strides(destination, row, col),
                ),
            )
            at += row.items * col.items * destination.item


def message_bytes(rows: Runs, cols: Runs, item: int) -> int:
    """Length of the message that these runs make."""
    return items_of(rows) * items_of(cols) * item
