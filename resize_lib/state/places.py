"""Places of values: variables, attributes, items, cells of closures, contents; read and set."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from resize_lib.state import objects
from resize_lib.state.objects import Kind

# Where a value is: its owner, which is a scope (program.Owner) or the key of an object, and a step.
Path: TypeAlias = tuple[Any, tuple[Any, ...]]

# Steps. Of a scope: "v" a variable. Of an object: "a" attribute, "k" item, "c" cell, "d" default;
# CONTENTS, KEYS: what is no part of its own. An object inside a value: its number there.
CONTENTS: tuple[str] = ("*",)
KEYS: tuple[str] = ("keys",)


class Place(NamedTuple):
    """Where a value is: a step of an owner, which is a scope or an object."""

    owner: Any
    step: tuple[Any, ...]
    kind: Kind | None = None  # of the owner, where it is an object

    def get(self) -> Any:
        """The value now; of contents what `Kind.fill` takes."""
        match self.step[0]:
            case "v":
                return self.owner.value(self.step[1])
            case "a":
                return objects.attribute(self.owner, self.step[1])
            case "k":
                return self.owner[self.step[1]]
            case "c":
                return self.owner.__closure__[self.step[1]].cell_contents
            case "d":
                return self.owner.__defaults__[self.step[1]]
            case "w":
                return self.owner.__kwdefaults__[self.step[1]]
            case "keys":
                return keys_of(self.owner, self.kind)
        assert self.kind is not None, "contents of an object"
        return self.kind.contents(self.owner)

    def unbind(self) -> None:
        """Delete the variable."""
        self.owner.unbind(self.step[1])

    def set(self, value: Any) -> None:
        """Give it another one."""
        match self.step[0]:
            case "v":
                self.owner.bind(self.step[1], value)
            case "a":
                objects.set_attribute(self.owner, self.step[1], value)
            case "k":
                self.owner[self.step[1]] = value
            case "c":
                self.owner.__closure__[self.step[1]].cell_contents = value
            case "d":
                defaults = list(self.owner.__defaults__)
                defaults[self.step[1]] = value
                self.owner.__defaults__ = tuple(defaults)
            case "w":
                self.owner.__kwdefaults__[self.step[1]] = value
            case "keys":
                _set_keys(self.owner, self.kind, value)
            case _:
                assert self.kind is not None, "contents of an object"
                self.kind.fill(self.owner, value)


def keys_of(owner: Any, kind: Kind | None) -> list[str]:
    """The names of its attributes, or keys, in order."""
    return list(owner) if kind is objects.DICT else list(objects.attributes(owner))


def _set_keys(owner: Any, kind: Kind | None, names: list[str]) -> None:
    """Only these remain, in this order; those that are missing come by themselves."""
    if kind is objects.DICT:
        found = {name: owner[name] for name in names if name in owner}
        owner.clear()
        owner.update(found)
        return
    for name in set(objects.attributes(owner)) - set(names):
        objects.remove_attribute(owner, name)


PLAIN = (int, float, complex, str, bytes, np.number, np.bool_)
ITEMS_MAX = 100_000  # of a list that are looked at


def is_whole(place: Place | None, made_of: frozenset[str]) -> bool:
    """Whether the digest of a value is of all in it: an array, a number, a list of numbers.

    Not of a number that the loop makes of the number of ranks: the range of one rank may be what it
    was before the loop, and was set nevertheless.
    """
    if place is None:
        return False
    value: Any = None
    with suppress(Exception):  # any class may raise anything
        value = place.get()
    if isinstance(value, np.ndarray):
        return not value.dtype.hasobject
    if isinstance(value, list | tuple):
        return len(value) <= ITEMS_MAX and all(isinstance(each, PLAIN) for each in value)
    return isinstance(value, PLAIN) and "size" not in made_of
