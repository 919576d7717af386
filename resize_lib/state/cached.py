"""Functions and properties that keep their results (functools): what they keep cannot be copied.

A rank that joins computes the results anew. They are the same, unless the function uses what the
loop has changed since: it then refuses. Results that are made of the job's ranks are wrong on all
of them after a resize.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from mpi4py import MPI

from resize_lib.mistakes import short_path
from resize_lib.state.comparison import Told
from resize_lib.state.objects import CACHED, CLASS, attributes, kind_of
from resize_lib.state.places import Path
from resize_lib.state.program import MODULE, is_program_function
from resize_lib.state.sources import is_setting
from resize_lib.state.survey import Anchor, Anchors


def stale_results(told: Told, anchors: Anchors) -> str:
    """Why what a function has kept may be wrong in a rank that joins, with its line; empty: not."""
    functions = [each for each in _functions(anchors) if not each[2]]
    if not functions:
        return ""
    changed = _Changed(told, anchors)
    for function, owners, _ in functions:
        name = next(changed.used_by(function, {function}, owners), "")
        if name:
            code = function.__code__
            return (
                f"{short_path(code.co_filename)}:{code.co_firstlineno}: {code.co_name} keeps its"
                f" results (functools) and uses {name}, which the loop has changed: a rank that"
                " joins would compute other results: keep them in a dict"
            )
    return ""


def results_of_ranks(anchors: Anchors) -> str:
    """Why a resize makes results wrong that a function has kept, with its line; empty: it does not.

    They are made of a communicator, the session or declared data.
    """
    for function, owners, _ in _functions(anchors):
        name = next(_uses_ranks(function, {function}, owners), "")
        if name:
            code = function.__code__
            return (
                f"{short_path(code.co_filename)}:{code.co_firstlineno}: {code.co_name} keeps its"
                f" results (functools) and uses {name}, which is another one after a resize:"
                " compute them in each iteration, or in @rs.on_resize"
            )
    return ""


def _uses_ranks(function: Any, seen: set[Any], owners: Sequence[Anchor]) -> Iterator[str]:
    if not isinstance(function, types.FunctionType) or not is_program_function(function):
        return
    names = _names(function.__code__)
    if "COMM_WORLD" in names:
        yield "COMM_WORLD"
    values = {name: function.__globals__[name] for name in names & function.__globals__.keys()}
    for own in owners:
        parts = attributes(own.get())
        values |= {name: parts[name] for name in names & parts.keys()}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # an empty cell
            values[name] = cell.cell_contents
    for name, value in sorted(values.items()):
        if isinstance(value, MPI.Comm) or type(value).__module__.partition(".")[0] == "resize_lib":
            yield name
        elif isinstance(value, types.FunctionType) and value not in seen:
            seen.add(value)
            yield from _uses_ranks(value, seen, ())


def _functions(anchors: Anchors) -> Iterator[tuple[Any, list[Anchor], bool]]:
    """Those that have kept results; of a method the objects of its class, and if they have them."""
    found = [(anchor, anchor.get()) for anchor in anchors.by_key.values()]
    for anchor, value in found:
        if anchor.kind is CACHED and value is not None and value.cache_info().misses:
            yield value.__wrapped__, [], False
        if anchor.kind is CLASS and value is not None:
            parts = [part for part in vars(value).values() if _keeps(part)]
            owners = [own for own, each in found if parts and isinstance(each, value)]
            for part in parts:
                if isinstance(part, functools.cached_property):
                    if any(part.attrname in vars(own.get()) for own in owners):
                        yield part.func, owners, True
                elif part.cache_info().misses:
                    yield part.__wrapped__, owners, False


def _keeps(part: Any) -> bool:
    return isinstance(part, functools.cached_property) or kind_of(part) is CACHED


class _Changed:
    """What the loop has changed, as functions refer to it."""

    def __init__(self, told: Told, anchors: Anchors) -> None:
        self._anchors = anchors
        self._places = told.now.keys()
        self._draws = any(map(is_setting, told.now))
        self._owners = {key for path in told.now for key in self._around(path)}

    def _around(self, path: Path) -> Iterator[bytes]:
        """The object that a place is in, and those that it is in."""
        owner = path[0]
        while isinstance(owner, bytes):
            yield owner
            anchor = self._anchors.by_key.get(owner)
            owner = anchor.parent[0] if anchor is not None else ()

    def used_by(
        self, function: Any, seen: set[Any], owners: Sequence[Anchor] = ()
    ) -> Iterator[str]:
        """Names of such things in a function of the program, and in those that it calls.

        owners: objects whose attributes it may use
        """
        if not isinstance(function, types.FunctionType) or not is_program_function(function):
            return
        names, values = _names(function.__code__), function.__globals__
        owner = (MODULE, str(values.get("__name__")))
        found: list[tuple[str, Any, Path]] = [
            (name, values[name], (owner, ("v", name))) for name in sorted(names) if name in values
        ]
        for own in owners:
            parts = attributes(own.get())
            found += [
                (name, parts[name], (own.key, ("a", name))) for name in sorted(names & parts.keys())
            ]
        anchor = self._anchors.of(function)
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        for number, (name, cell) in enumerate(cells):
            place = (anchor.key if anchor is not None else b"", ("c", number, name))
            with suppress(ValueError):  # an empty cell
                found.append((name, cell.cell_contents, place))
        for name, value, path in found:
            known = self._anchors.of(value)
            drawn = self._draws and isinstance(value, types.ModuleType) and "random" in names
            if path in self._places or drawn or (known is not None and known.key in self._owners):
                yield name
            elif isinstance(value, types.FunctionType) and value not in seen:
                seen.add(value)
                yield from self.used_by(value, seen)


def _names(code: types.CodeType) -> set[str]:
    """Of variables and attributes, also in the functions inside."""
    inside = [part for part in code.co_consts if isinstance(part, types.CodeType)]
    return set(code.co_names).union(*map(_names, inside))
