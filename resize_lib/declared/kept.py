"""`rs.keep`: a program's own objects, the same on every rank, filled in place where ranks join.

A rank that joins has made the same objects in its set-up; they get the contents of rank 0's, and so
does all that refers to them. How an object is filled, first match:

    load_state_dict   what has it (modules, optimizers and schedulers of torch), and then its
                      attributes that are plain data
    by its kind       lists, dicts, sets, deques, arrays, tensors, random generators
    __setstate__      what says itself how it is made again
    its attributes    any other object of a class, in `__dict__` and in slots; callable ones, too

What cannot be filled in place, such as a number, is an `rs.value`.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum
from numbers import Number
from pathlib import PurePath
from types import (
    BuiltinFunctionType,
    CodeType,
    FrameType,
    FunctionType,
    GeneratorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any, TypeAlias, TypeVar

import numpy as np

from resize_lib.declared.packed import Value
from resize_lib.descriptors import DescriptorError
from resize_lib.state.objects import has_state_dict

T = TypeVar("T")
DEPTH_MAX = 50  # of what is filled inside of what is filled

# They never change: a program that changes such a value binds a name to another one.
_UNCHANGING = (Number, str, bytes, tuple, frozenset, range, slice, PurePath, Enum, type(None))
_CODE = (FunctionType, BuiltinFunctionType, MethodType, CodeType, FrameType, ModuleType, type)
_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic, np.ndarray)


class Kept(Value[T]):
    """A mutable object of the program that is the same on every rank (`rs.keep`).

    Global   its contents; a rank that joins gets rank 0's
    Local    the same object as long as the process lives; a program changes it on all ranks alike
    dtype    list, dict, set, bytearray, deque, numpy array, random generator, torch module or
             optimizer, or an object of any class of the program; pickle must take it
    Errors   a resize is aborted, and says so, if the contents are not the same on all ranks, cannot
             be pickled, or an array has another shape in the rank that joins
    """

    def __init__(self, name: str, value: T) -> None:
        why = why_not(value)
        if why:
            raise DescriptorError(f"rs.keep({name}=...): {why.format(name=name)}")
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
                f" {_shown(value)} in the job; the set-up must make the same on every rank"
            )


def why_not(value: Any) -> str:
    """Why an object cannot be filled in place, and what to do; empty if it can.

    "{name}" in it stands for what the program calls it.
    """
    kind = type(value)
    if isinstance(value, _CODE):
        return f"a {kind.__name__} has no contents: keep the objects that it uses and changes"
    if isinstance(value, GeneratorType):
        return (
            "a generator cannot be copied to a rank that joins: write it as a class with __next__,"
            " or compute what it yields from the iteration"
        )
    if _filler(value) is not None:
        return ""
    return (
        f"a {kind.__name__} cannot be filled in place where a rank joins: write"
        f" {{name}} = rs.value('{{name}}', ...), and {{name}}.value wherever it is read or set"
    )


def fits(mine: Any, other: Any) -> bool:
    """Whether `mine` can be given the contents of `other`. Local, changes nothing."""
    if type(mine) is not type(other) or _filler(mine) is None:
        return False
    if has_state_dict(mine):
        here, there = mine.state_dict(), other.state_dict()
        return here.keys() == there.keys() and all(
            getattr(here[key], "shape", None) == getattr(there[key], "shape", None) for key in here
        )
    if isinstance(mine, np.ndarray):
        alike = mine.shape == other.shape and mine.dtype == other.dtype
        return alike and bool(mine.flags.writeable)
    if _is_tensor(mine):
        return bool(mine.shape == other.shape and mine.dtype == other.dtype)
    if isinstance(mine, np.random.Generator):
        return type(mine.bit_generator) is type(other.bit_generator)
    return not isinstance(mine, deque) or mine.maxlen == other.maxlen


def fill(mine: Any, other: Any) -> None:
    """Give `mine` the contents of `other`, which `fits` and is of no use afterwards.

    What `mine` contains is filled, too, where it fits, so that references to it stay right.
    """
    _Filling().fill(mine, other, 0)


class _Filling:
    """One call of `fill`: which object was filled with which other one.

    An object that is reached twice in `other` is one object in `mine`, too; one that is reached
    twice in `mine`, and is two in `other`, becomes two.
    """

    def __init__(self) -> None:
        self._mine: dict[int, Any] = {}  # by the other's id
        self._others: dict[int, Any] = {}  # by mine's

    def fill(self, mine: Any, other: Any, depth: int) -> None:
        """See `fill`."""
        self._mine[id(other)], self._others[id(mine)] = mine, other
        filler = _filler(mine)
        assert filler is not None, "it fits"
        filler(self, mine, other, depth + 1)

    def filled(self, mine: Any, other: Any, depth: int) -> Any:
        """What stands for `other` in something that is filled: `mine` if it can be."""
        if id(other) in self._mine:
            return self._mine[id(other)]
        taken = mine is other or id(mine) in self._others
        if taken or depth > DEPTH_MAX or not fits(mine, other):
            return other
        self.fill(mine, other, depth)
        return mine

    # --- by kind: of the object itself ------------------------------------------------------------

    def of_array(self, mine: Any, other: Any, depth: int) -> None:
        mine[...] = other
        self.of_attributes(mine, other, depth)

    def of_tensor(self, mine: Any, other: Any, _depth: int) -> None:
        mine.detach().copy_(other.detach())

    def of_list(self, mine: Any, other: Any, depth: int) -> None:
        alike = [self.filled(a, b, depth) for a, b in zip(mine, other, strict=False)]
        rest = [self.filled(None, each, depth) for each in [*other][len(alike) :]]
        mine.clear()
        mine.extend([*alike, *rest])
        self.of_attributes(mine, other, depth)

    def of_dict(self, mine: Any, other: Any, depth: int) -> None:
        self._mapping(mine, other, depth)
        self.of_attributes(mine, other, depth)

    def of_set(self, mine: Any, other: Any, depth: int) -> None:
        mine.clear()
        mine.update(other)
        self.of_attributes(mine, other, depth)

    def by_state(self, mine: Any, other: Any, depth: int) -> None:
        state = _state_of(other)
        if state is None:
            self.of_attributes(mine, other, depth)
        else:
            mine.__setstate__(state)

    def by_state_dict(self, mine: Any, other: Any, depth: int) -> None:
        mine.load_state_dict(other.state_dict())
        # A module's state has neither its plain attributes nor buffers that are not persistent.
        for here, there in zip(_modules(mine), _modules(other), strict=True):
            for name, value in vars(there).items():
                if name == "_buffers" or _is_tensor(value) or _is_plain(value):
                    setattr(here, name, self.filled(vars(here).get(name), value, depth))

    def of_attributes(self, mine: Any, other: Any, depth: int) -> None:
        if hasattr(mine, "__dict__"):
            # What a class leaves out when it is pickled, a file or a communicator, stays.
            left_out = vars(mine).copy() if _chooses_state(type(mine)) else {}
            self._mapping(vars(mine), vars(other), depth)
            vars(mine).update((k, v) for k, v in left_out.items() if k not in vars(mine))
        for slot in _slots(type(mine)):
            held, value = _in_slot(slot, mine), _in_slot(slot, other)
            if value is not _NOTHING:
                slot.__set__(mine, self.filled(held, value, depth))
            elif held is not _NOTHING:
                slot.__delete__(mine)

    def _mapping(self, mine: Any, other: Any, depth: int) -> None:
        found = {k: self.filled(mine.get(k), v, depth) for k, v in other.items()}
        mine.clear()
        mine.update(found)


_NOTHING = object()
Filler: TypeAlias = Callable[[_Filling, Any, Any, int], None]  # mine, other, how deep inside

_FILLERS: dict[type, Filler] = {
    np.ndarray: _Filling.of_array,
    list: _Filling.of_list,
    bytearray: _Filling.of_list,
    deque: _Filling.of_list,
    dict: _Filling.of_dict,
    set: _Filling.of_set,
    np.random.Generator: lambda _, mine, other, __: setattr(
        mine.bit_generator, "state", other.bit_generator.state
    ),
    np.random.RandomState: lambda _, mine, other, __: mine.set_state(other.get_state()),
    random.Random: lambda _, mine, other, __: mine.setstate(other.getstate()),
}


def _filler(value: Any) -> Filler | None:
    """How an object like this is filled; None: it cannot be."""
    kind = type(value)
    if isinstance(value, (*_UNCHANGING, *_CODE, GeneratorType)):
        return None
    if has_state_dict(value):
        return _Filling.by_state_dict
    for base in kind.__mro__:
        if base in _FILLERS:
            return _FILLERS[base]
    if _is_tensor(value):
        return _Filling.of_tensor
    parameters = getattr(kind, "__dataclass_params__", None)
    if parameters is not None and parameters.frozen:
        return None
    if not (hasattr(value, "__dict__") or _slots(kind)):  # of C: an iterator, a lock, a date
        return None
    return _Filling.by_state if hasattr(kind, "__setstate__") else _Filling.of_attributes


def _is_tensor(value: Any) -> bool:
    """Of torch, which need not be installed."""
    kind = type(value)
    return all(hasattr(kind, name) for name in ("copy_", "detach", "shape", "dtype"))


def _modules(value: Any) -> Iterator[Any]:
    """A module of torch with all its parts; any other object alone."""
    modules = getattr(type(value), "modules", None)
    return iter(value.modules() if callable(modules) else [value])


def _is_plain(value: Any, depth: int = 0) -> bool:
    """Whether a value is data through and through, without an object of a class."""
    if isinstance(value, _PLAIN):
        return True
    if depth > DEPTH_MAX:
        return False
    if type(value) in (list, tuple, set, frozenset, deque):
        return all(_is_plain(each, depth + 1) for each in value)
    if type(value) is dict:
        return all(_is_plain(v, depth + 1) for pair in value.items() for v in pair)
    return False


def _slots(kind: type) -> list[Any]:
    """The descriptors of the slots of a class and its bases."""
    found = []
    for base in kind.__mro__:
        names = vars(base).get("__slots__", ())
        for name in [names] if isinstance(names, str) else names:
            private = name.startswith("__") and not name.endswith("__")
            slot = vars(base).get(f"_{base.__name__.lstrip('_')}{name}" if private else name)
            if isinstance(slot, MemberDescriptorType):
                found.append(slot)
    return found


def _in_slot(slot: Any, value: Any) -> Any:
    try:
        return slot.__get__(value)
    except AttributeError:
        return _NOTHING


def _chooses_state(kind: type) -> bool:
    """Whether a class says itself what pickle takes of it."""
    names = ("__getstate__", "__reduce__", "__reduce_ex__")
    return any(getattr(kind, name) is not getattr(object, name) for name in names)


def _state_of(value: Any) -> Any:
    """What pickle would give to `__setstate__`; None: nothing."""
    made = value.__reduce_ex__(4)
    return made[2] if isinstance(made, tuple) and len(made) > 2 else None


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray) or _is_tensor(value):
        return f"an array of shape {tuple(value.shape)} and {value.dtype}"
    return f"a {type(value).__name__}"
