"""Boxes of items in local parts and messages: one strided numpy copy for each choice of runs.

Items are moved as raw bytes: an item is ``itemsize`` times whatever stays whole, and adjacent
items of a row that stay adjacent are moved as one wide item. The dtype plays no part, so any dtype
without references moves bit by bit. The outermost dimension of memory comes first everywhere; a
part in Fortran order is seen transposed (``Part.of``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from operator import mul

import numpy as np
from numpy.typing import NDArray

from resize_lib.redistribution.runs import Box, Run

Array = NDArray[np.generic]
RawBytes = NDArray[np.uint8]


def address_of(array: Array) -> int:
    """Address of the first item of ``array``."""
    address: int = array.__array_interface__["data"][0]
    return address


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
    """One rank's local part as raw items: an address and the strides of its axes.

    ``keeper`` keeps the memory alive. An item is as wide as the trailing dimensions.
    """

    address: int
    item: int  # bytes
    strides: tuple[int, ...]  # bytes; of the distributed axes, outermost in memory first
    keeper: Array

    @classmethod
    def of(cls, array: Array, *, dimensions: int, transposed: bool) -> Part:
        """See a local array with ``dimensions`` distributed axes as raw items.

        Trailing dimensions must be contiguous. ``transposed``: the axes are seen in reverse, which
        the boxes used with this part must be as well.
        """
        item = array.itemsize * prod(array.shape[dimensions:])
        strides = array.strides[:dimensions]
        return cls(address_of(array), item, strides[::-1] if transposed else strides, array)

    @classmethod
    def without_gaps(cls, address: int, item: int, shape: Sequence[int]) -> Part:
        """A part in another process; ``shape``: outermost in memory first."""
        strides = [item]
        for extent in shape[:0:-1]:
            strides.append(strides[-1] * extent)
        return cls(address, item, tuple(strides[::-1]), NOTHING)

    def at(self, starts: Iterable[int]) -> int:
        """Address of the item at local indices ``starts``."""
        offset: int = sum(map(mul, starts, self.strides))
        return self.address + offset


NOTHING: Array = np.empty(0, np.uint8)  # kept alive for a part in another process


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


# numpy counts the bytes of an item in 32 bits.
ITEM_BYTES_MAX = 1 << 30
Side = tuple[int, Sequence[int]]  # address, and two strides in bytes for each run


def _views(runs: Sequence[Run], item: int, source: Side, destination: Side) -> tuple[Array, Array]:
    """The product of one run per axis, on both sides: where to copy to, and what."""
    (source_at, source_strides), (destination_at, destination_strides) = source, destination
    shape: list[int] = []
    for run in runs:
        shape += (run.count, run.length)
    # Items that are adjacent on both sides are one wide item: numpy copies fewer and longer items.
    dimensions = len(shape)
    while dimensions > 2:
        inner = dimensions - 1
        adjacent = source_strides[inner] == destination_strides[inner] == item
        if not (shape[inner] == 1 or (adjacent and item * shape[inner] < ITEM_BYTES_MAX)):
            break
        item *= shape[inner]
        dimensions = inner
    kept = tuple(shape[:dimensions])
    return (
        np.asarray(_Memory(destination_at, item, kept, tuple(destination_strides[:dimensions]))),
        np.asarray(_Memory(source_at, item, kept, tuple(source_strides[:dimensions]))),
    )


# Written out, twice: there may be very many choices of runs, and each costs a copy only little.


def _source_side(part: Part, runs: Sequence[Run]) -> Side:
    at = part.address
    strides: list[int] = []
    for run, stride in zip(runs, part.strides, strict=True):
        at += run.source * stride
        strides += (run.source_stride * stride, stride)
    return at, strides


def _destination_side(part: Part, runs: Sequence[Run]) -> Side:
    at = part.address
    strides: list[int] = []
    for run, stride in zip(runs, part.strides, strict=True):
        at += run.destination * stride
        strides += (run.destination_stride * stride, stride)
    return at, strides


def _message_strides(runs: Sequence[Run], item: int) -> tuple[list[int], int]:
    """Strides of these runs in a message, where they lie without gaps; and their bytes."""
    strides: list[int] = []
    width = item
    for run in reversed(runs):
        strides += width, width * run.length
        width *= run.items
    return strides[::-1], width


def contiguous_address(box: Box, part: Part, *, old: bool) -> int | None:
    """Address of the items in ``part`` if they lie there as in a message: contiguous.

    ``old``: ``part`` is the old one. None if they must be gathered. A share of contiguous rows is
    contiguous.
    """
    if any(len(runs) != 1 or runs[0].count != 1 for runs in box):
        return None
    width = part.item
    for (run,), stride in zip(reversed(box), reversed(part.strides), strict=True):
        if run.length > 1 and stride != width:
            return None
        width *= run.length
    return part.at(runs[0].source if old else runs[0].destination for runs in box)


def views_of(box: Box, source: Part, destination: Part) -> Iterator[tuple[Array, Array]]:
    """For each choice of runs: where to copy to, and what. The views keep no memory alive."""
    for runs in product(*box):
        yield _views_between(runs, source, destination)


def _views_between(runs: Sequence[Run], source: Part, destination: Part) -> tuple[Array, Array]:
    sides = _source_side(source, runs), _destination_side(destination, runs)
    return _views(runs, source.item, *sides)


def copy_box(box: Box, source: Part, destination: Part) -> None:
    """Copy between two parts of this process."""
    copy_views(views_of(box, source, destination))


def copy_runs(runs: Sequence[Run], source: Part, destination: Part) -> None:
    """``copy_box`` of one run per axis."""
    np.copyto(*_views_between(runs, source, destination))


def copy_views(views: Iterable[tuple[Array, Array]]) -> None:
    """Copy pairs of where to, and what."""
    for to, what in views:
        np.copyto(to, what)


def packing_views(box: Box, source: Part, message: RawBytes) -> Iterator[tuple[Array, Array]]:
    """How a box is gathered into ``message``, which is as long: see ``views_of``."""
    at = address_of(message)
    for runs in product(*box):
        strides, nbytes = _message_strides(runs, source.item)
        yield _views(runs, source.item, _source_side(source, runs), (at, strides))
        at += nbytes


def unpacking_views(
    box: Box, message: RawBytes, destination: Part
) -> Iterator[tuple[Array, Array]]:
    """How ``message``, gathered as above, is scattered to its places."""
    at = address_of(message)
    for runs in product(*box):
        strides, nbytes = _message_strides(runs, destination.item)
        yield _views(runs, destination.item, (at, strides), _destination_side(destination, runs))
        at += nbytes
