"""Variables that travel from one rank to another, both played in one process, without MPI."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from types import BuiltinMethodType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from resize_lib.state import packing
from resize_lib.state.places import Path, Place
from resize_lib.state.survey import Survey

OWNER = ("frame", 0, "program.py", "main", 1)


class PlayedScope:
    """A function's variables."""

    owner, file, function, line, frame, module = OWNER, "program.py", 1, 2, None, None

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names

    def variables(self) -> dict[str, Any]:
        return dict(self.names)

    def value(self, name: str) -> Any:
        return self.names[name]

    def bind(self, name: str, value: Any) -> None:
        self.names[name] = value

    def unbind(self, name: str) -> None:
        del self.names[name]


def nothing(_value: Any) -> None:
    """No object of a session is known."""


def changed(first: Survey, now: Survey) -> dict[Path, Place]:
    """The places whose digests differ."""
    settings = {path for path in now.places if path[0][0] == "setting"}
    return {
        path: now.places[path]
        for path, digest in now.digests.items()
        if first.digests.get(path) != digest and path not in settings
    }


def travelled(
    make: Callable[[], dict[str, Any]], change: Callable[[dict[str, Any]], object]
) -> tuple[PlayedScope, PlayedScope]:
    """An old rank's scope after a change, and a new rank's that has got what has changed."""
    old, new = PlayedScope(make()), PlayedScope(make())
    first = Survey(None, nothing).take([old])  # type: ignore[list-item]
    fresh = Survey(None, nothing).take([new])  # type: ignore[list-item]
    change(old.names)
    now = Survey(first.anchors, nothing).take([old])  # type: ignore[list-item]
    packed = packing.pack(changed(first, now), now.anchors, nothing)
    assert not packed.failed, packed.failed
    paths: list[Path] = list(packed.sizes)
    large: list[Any] = [bytearray(each) for each in packed.large]
    for path, number in packed.whole.items():  # read straight into the new rank's arrays
        own = packing.memory(path, fresh.anchors)
        if own is not None and own.nbytes == len(large[number]):
            own[:] = packed.large[number]
            large[number] = own
    for _ in range(2):  # iterators take their place in a list when it is filled
        values = packing.unpack(packed.payload, large, paths, fresh.anchors, lambda name: name)
        for path in sorted(paths, key=lambda path: path[1] == ("keys",)):
            place = fresh.places.get(path)
            if place is None:
                anchor = fresh.anchors.by_key.get(path[0])
                owner = anchor.get() if anchor is not None else new
                place = Place(owner, path[1], anchor.kind if anchor is not None else None)
            place.set(values[path])
    again = Survey(fresh.anchors, nothing).take([new])  # type: ignore[list-item]
    differing = [
        p for p, d in now.digests.items() if again.digests.get(p) != d and p[0][0] != "setting"
    ]
    assert not differing, [now.anchors.shown(p) for p in differing]
    return old, new


def assert_alike(old: Any, new: Any) -> None:
    """Both have the same values, and the same objects are shared in them; written without digests.

    Raises:
        AssertionError: they differ; names the way to the place.
    """
    _alike(old, new, {}, "")


def _alike(old: Any, new: Any, pairs: dict[int, Any], where: str) -> None:
    assert type(old).__qualname__ == type(new).__qualname__, (where, old, new)
    if id(old) in pairs:
        assert pairs[id(old)] is new, f"{where} is shared in the old rank, and not in the new one"
        return
    parts = _parts(old)
    if parts is None:
        if isinstance(old, MethodType):
            _alike((old.__func__, old.__self__), (new.__func__, new.__self__), pairs, where)
        elif isinstance(old, BuiltinMethodType):
            _alike(old.__self__, new.__self__, pairs, where)
        elif isinstance(old, partial):
            _alike(old.__reduce__()[1:], new.__reduce__()[1:], pairs, where)
        else:
            assert old == new or (old != old and new != new), (where, old, new)
        return
    if not isinstance(old, tuple | frozenset):
        assert all(other is not new for other in pairs.values()), f"{where} is shared in the new"
        pairs[id(old)] = new
    others = _parts(new)
    assert others is not None, (where, new)
    assert list(parts) == list(others), (where, list(parts), list(others))
    for name, part in parts.items():
        _alike(part, others[name], pairs, f"{where}.{name}")


def _parts(value: Any) -> dict[Any, Any] | None:
    """What an object consists of; None: it is a plain value."""
    if isinstance(value, np.ndarray):
        dtype = [str(value.dtype), value.shape]
        return {"array": repr(dtype), "items": repr(value.tolist()), "mask": repr(_mask(value))}
    found: dict[Any, Any] = {}
    if isinstance(value, type | ModuleType | FunctionType | partial):
        return None
    if isinstance(value, list | tuple | deque):
        found |= enumerate(value)
    elif isinstance(value, dict):
        found |= {f"key {key!r}": part for key, part in value.items()}
    elif isinstance(value, set | frozenset | bytearray | range):
        found |= {"all": repr(sorted(value, key=repr))}
    elif type(value).__module__ in ("builtins", "datetime", "decimal", "pathlib", "fractions"):
        return None
    attributes = dict(getattr(value, "__dict__", {}))
    for base in type(value).__mro__:
        names = vars(base).get("__slots__", ())
        attributes |= {name: getattr(value, name) for name in names if hasattr(value, name)}
    return found | attributes if found or attributes or isinstance(value, CONTAINERS) else None


def _mask(value: Any) -> Any:
    return value.mask.tolist() if isinstance(value, np.ma.MaskedArray) else None


CONTAINERS = (list, tuple, deque, dict, set, frozenset)
