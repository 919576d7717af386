"""Functions and properties that keep their results (functools): what they keep cannot be copied.

A rank that joins computes the results anew. They are the same, unless the function uses what the
loop has changed since: it then refuses. Results that are made of the job's ranks are wrong on all
of them after a resize.
"""

from __future__ import annotations

import functools
import itertools
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

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
    functions = list(_functions(anchors))
    if not functions:
        return ""
    changed = _Changed(told, anchors)
    for function, owners in functions:
        name = next(_used(function, owners, anchors, changed.has), "")
        if name:
            return (
                f"{_named(function)} keeps its results (functools) and uses {name}, which the loop"
                " has changed: a rank that joins would compute other results: keep them in a dict"
            )
    return ""


def results_of_ranks(anchors: Anchors) -> str:
    """Why a resize makes results wrong that a function has kept, with its line; empty: it does not.

    They are made of a communicator, the session or declared data.
    """
    for function, owners in itertools.chain(_functions(anchors), _properties(anchors)):
        name = next(_used(function, owners, anchors, _is_of_ranks), "")
        if name:
            return (
                f"{_named(function)} keeps its results (functools) and uses {name}, which is"
                " another one after a resize: compute them in each iteration, or in @rs.on_resize"
            )
    return ""


def _named(function: types.FunctionType) -> str:
    code = function.__code__
    return f"{short_path(code.co_filename)}:{code.co_firstlineno}: {code.co_name}"


# --- functions that have kept results ---------------------------------------------------------


def _functions(anchors: Anchors) -> Iterator[tuple[Any, list[Anchor]]]:
    """Those that have kept results; of a method with the objects of its class."""
    for anchor in anchors.by_key.values():
        value = anchor.get()
        if anchor.kind is CACHED and value is not None and value.cache_info().misses:
            yield value.__wrapped__, []
    for part, owners in _parts(anchors, lambda part: kind_of(part) is CACHED):
        if part.cache_info().misses:
            yield part.__wrapped__, owners


def _properties(anchors: Anchors) -> Iterator[tuple[Any, list[Anchor]]]:
    """Those whose results objects have as attributes, with the objects."""
    for part, owners in _parts(anchors, lambda part: isinstance(part, functools.cached_property)):
        if any(part.attrname in vars(own.get()) for own in owners):
            yield part.func, owners


def _parts(anchors: Anchors, fits: Callable[[Any], bool]) -> Iterator[tuple[Any, list[Anchor]]]:
    """Such parts of classes, with the objects of the class."""
    for anchor in anchors.by_key.values():
        cls = anchor.get() if anchor.kind is CLASS else None
        if cls is not None and (parts := [part for part in vars(cls).values() if fits(part)]):
            owners = [own for own in anchors.by_key.values() if isinstance(own.get(), cls)]
            yield from ((part, owners) for part in parts)


# --- what they use ----------------------------------------------------------------------------


class _Reference(NamedTuple):
    """What a function refers to by a name. names: all that it uses. place: as a survey has it."""

    names: set[str]
    name: str
    value: Any
    place: Path


def _used(
    function: Any,
    owners: Sequence[Anchor],
    anchors: Anchors,
    wanted: Callable[[_Reference], bool],
    seen: set[Any] | None = None,
) -> Iterator[str]:
    """Names of what is wanted in a function of the program, and in those that it calls.

    owners: objects whose attributes it may use
    """
    seen = {function} if seen is None else seen
    if not isinstance(function, types.FunctionType) or not is_program_function(function):
        return
    for reference in _references(function, owners, anchors):
        value = reference.value
        if wanted(reference):
            yield reference.name
        elif isinstance(value, types.FunctionType) and value not in seen:
            seen.add(value)
            yield from _used(value, (), anchors, wanted, seen)


def _references(
    function: types.FunctionType, owners: Sequence[Anchor], anchors: Anchors
) -> Iterator[_Reference]:
    names, values = _names(function.__code__), function.__globals__
    module = (MODULE, str(values.get("__name__")))
    if "COMM_WORLD" in names:
        yield _Reference(names, "COMM_WORLD", MPI.COMM_WORLD, (module, ()))
    for name in sorted(names & values.keys()):
        yield _Reference(names, name, values[name], (module, ("v", name)))
    for own in owners:
        parts = attributes(own.get())
        for name in sorted(names & parts.keys()):
            yield _Reference(names, name, parts[name], (own.key, ("a", name)))
    anchor = anchors.of(function)
    key = anchor.key if anchor is not None else b""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    for number, (name, cell) in enumerate(cells):
        with suppress(ValueError):  # an empty cell
            yield _Reference(names, name, cell.cell_contents, (key, ("c", number, name)))


def _is_of_ranks(reference: _Reference) -> bool:
    of_library = type(reference.value).__module__.partition(".")[0] == "resize_lib"
    return of_library or isinstance(reference.value, MPI.Comm)


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

    def has(self, reference: _Reference) -> bool:
        """Whether it is something that the loop has changed."""
        value, known = reference.value, self._anchors.of(reference.value)
        drawn = self._draws and isinstance(value, types.ModuleType) and "random" in reference.names
        inside = known is not None and known.key in self._owners
        return reference.place in self._places or drawn or inside


def _names(code: types.CodeType) -> set[str]:
    """Of variables and attributes, also in the functions inside."""
    inside = [part for part in code.co_consts if isinstance(part, types.CodeType)]
    return set(code.co_names).union(*map(_names, inside))
