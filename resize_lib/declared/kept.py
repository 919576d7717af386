"""`rs.keep`: a program's own objects, the same on every rank, filled in place where ranks join.

A rank that joins has made the same objects in its set-up; they get the contents of rank 0's, and so
does all that refers to them. What cannot be filled in place, such as a number, is an `rs.value`.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import numpy as np

from resize_lib.declared.packed import Value
from resize_lib.descriptors import DescriptorError

T = TypeVar("T")
Filler: TypeAlias = Callable[[Any, Any, int], None]  # mine, other, how deep inside
DEPTH_MAX = 50  # of what contains itself, too


class Kept(Value[T]):
    """A mutable object of the program that is the same on every rank (`rs.keep`).

    Global   its contents; a rank that joins gets rank 0's
    Local    the same object as long as the process lives; a program changes it on all ranks alike
    dtype    list, dict, set, bytearray, deque, numpy array, random generator, or an object of a
             class of the program; pickle must take it
    Errors   a resize is aborted, and says so, if the contents are not the same on all ranks, cannot
             be pickled, or an array has another shape in the rank that joins
    """

    def __init__(self, name: str, value: T) -> None:
        if _filler(value) is None:
            raise DescriptorError(
                f"rs.keep({name}=...): {type(value).__name__} cannot be filled in place where a"
                f" rank joins: declare it with rs.value({name!r}, ...)"
            )
        super().__init__(name, value)

    def restore(self, value: T) -> None:
        """Fill the program's object with the contents of another; DescriptorError as `check`."""
        self.check(value)
        fill(self.value, value)

    def check(self, value: Any) -> None:
        """DescriptorError if they do not fit, an array of another shape for example."""
        if not fits(self.value, value):
            raise DescriptorError(
                f"rs.keep {self.name!r} is {_shown(self.value)} in the rank that joins and"
                f" {_shown(value)} in the job: the set-up must make the same on every rank"
            )


def fits(mine: Any, other: Any) -> bool:
    """Whether `mine` can be given the contents of `other`."""
    if _filler(mine) is None or type(mine) is not type(other):
        return False
    if isinstance(mine, np.ndarray):
        alike = mine.shape == other.shape and mine.dtype == other.dtype
        return alike and bool(mine.flags.writeable)
    if isinstance(mine, np.random.Generator):
        return type(mine.bit_generator) is type(other.bit_generator)
    return True


def fill(mine: Any, other: Any, depth: int = 0) -> None:
    """Give `mine` the contents of `other`, which `fits`.

    What `mine` contains is filled, too, where it fits, so that references to it stay right.
    """
    filler = _filler(mine)
    assert filler is not None, "it fits"
    filler(mine, other, depth + 1)


def _filled(mine: Any, other: Any, depth: int) -> Any:
    """What stands for `other` in something that is filled: `mine` if it can be."""
    if depth > DEPTH_MAX or not fits(mine, other):
        return other
    fill(mine, other, depth)
    return mine


def _fill_array(mine: Any, other: Any, _depth: int) -> None:
    mine[...] = other


def _fill_list(mine: Any, other: Any, depth: int) -> None:
    alike = [_filled(a, b, depth) for a, b in zip(mine, other, strict=False)]
    rest = list(other)[len(alike) :]
    mine.clear()
    mine.extend([*alike, *rest])


def _fill_dict(mine: Any, other: Any, depth: int) -> None:
    found = {k: _filled(mine[k], v, depth) if k in mine else v for k, v in other.items()}
    mine.clear()
    mine.update(found)


def _fill_set(mine: Any, other: Any, _depth: int) -> None:
    mine.clear()
    mine.update(other)


def _fill_generator(mine: Any, other: Any, _depth: int) -> None:
    mine.bit_generator.state = other.bit_generator.state


def _fill_object(mine: Any, other: Any, depth: int) -> None:
    if hasattr(mine, "__setstate__"):
        mine.__setstate__(other.__getstate__())
    else:
        _fill_dict(vars(mine), vars(other), depth)


_FILLERS: dict[type, Filler] = {
    np.ndarray: _fill_array,
    list: _fill_list,
    bytearray: _fill_list,
    deque: _fill_list,
    dict: _fill_dict,
    set: _fill_set,
    np.random.Generator: _fill_generator,
    np.random.RandomState: lambda mine, other, _: mine.set_state(other.get_state()),
    random.Random: lambda mine, other, _: mine.setstate(other.getstate()),
}


def _filler(value: Any) -> Filler | None:
    """How an object like this is filled; None: it cannot be."""
    for kind in type(value).__mro__:
        if kind in _FILLERS:
            return _FILLERS[kind]
    kind = type(value)
    plain = hasattr(value, "__dict__") and not isinstance(value, type) and not callable(value)
    slotted = any("__slots__" in vars(base) and vars(base)["__slots__"] for base in kind.__mro__)
    return _fill_object if plain and not slotted else None


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape} and {value.dtype}"
    return f"a {type(value).__name__}"
