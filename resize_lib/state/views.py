"""Views of arrays: `current = buffer[1]` is part of `buffer` in a rank that joins, too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from resize_lib.state.iterators import CannotCopyError

Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True, slots=True)
class View:
    """Where a view is in the memory that another array is in.

    whole: shape, strides and type of that array. offset: bytes from its first item
    """

    whole: tuple[Any, ...]
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any
    writeable: bool


def root(array: Array) -> Array:
    """The array whose memory this is."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def view_of(array: Array, whole: Array) -> View | None:
    """How `array` is a view of `whole`; None: it is not, or not only.

    Arrays of objects are none: numpy does not make views of them by place.
    """
    if array.dtype.hasobject or root(whole) is not root(array):
        return None
    (low, high), (first, last) = _bounds(array), _bounds(whole)
    if low < first or high > last:
        return None
    return View(
        _layout(whole),
        _begin(array) - _begin(whole),
        array.shape,
        array.strides,
        array.dtype,
        bool(array.flags.writeable),
    )


def made(view: View, whole: Array) -> Array:
    """The same view of another process's `whole`.

    Raises:
        CannotCopyError: that array has another layout here.
    """
    memory = root(whole)
    if _layout(whole) != view.whole or not memory.flags.forc:
        raise CannotCopyError(
            "it is a view of an array that has another shape in a rank that joins"
        )
    flat = memory if memory.flags.c_contiguous else memory.T
    offset = _begin(whole) + view.offset - _begin(memory)
    found: Array = np.ndarray(view.shape, view.dtype, flat, offset, view.strides)
    if not view.writeable:
        found.flags.writeable = False
    return found


def _layout(array: Array) -> tuple[Any, ...]:
    return array.shape, array.strides, array.dtype.str


def _bounds(array: Array) -> tuple[int, int]:
    """The places of its first byte and behind its last."""
    begin = _begin(array)
    if not array.size:
        return begin, begin
    ways = [(n - 1) * step for n, step in zip(array.shape, array.strides, strict=True)]
    back = sum(way for way in ways if way < 0)
    return begin + back, begin + sum(ways) - back + array.itemsize


def _begin(array: Array) -> int:
    return int(array.__array_interface__["data"][0])
