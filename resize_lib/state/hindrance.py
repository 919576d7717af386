"""What keeps a program from being joined, whatever its variables are."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from types import FunctionType, MethodType
from typing import Any

from dq_client.check.facts import Facts
from dq_client.check.hidden import KEYS_OF
from resize_lib.mistakes import short_path
from resize_lib.state.comparison import Told
from resize_lib.state.places import Path
from resize_lib.state.program import (
    DELETED,
    Scope,
    is_beside,
    is_program_class,
    is_program_function,
)
from resize_lib.state.sources import Sources
from resize_lib.state.survey import Survey

COMPREHENSIONS = frozenset(("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"))
_HIDDEN = (
    "the loop is inside of an expression, whose result so far nobody can see: write a for loop over"
    " rs.iterations"
)

_HELD = (
    "is read before the call that runs the loop, as in total += run(): take the result into another"
    " variable first"
)
_BESIDE = (
    "has other items in a rank that joins, whose set-up did not know what the loop has changed:"
    " give these to rs.iterations itself, or index them in the loop"
)
_ITERATED = (
    "has been changed before the loop at line {} goes over what is made of it, and in a rank that"
    " joins that is made of another value: write that loop with rs.iterations, too"
)


_TURNS = (
    "the iteration and the number of ranks select the work together, and a resize would repeat some"
    " of it and leave out some: keep the position in a variable (done += rs.size)"
)

_COUNTS = (
    "a count that is the same on all ranks stands for the work of one of them, and a resize changes"
    " the number of ranks: add up the work of all ranks in each iteration (allreduce)"
)

_OWN_FILE = (
    "a file of the rank's own is read, with what the rank wrote into it in an earlier"
    " iteration: a resize gives ranks other parts of the data, so write it in the iteration that"
    " reads it, or keep the data in rs.array"
)

_HISTORY = (
    "the rank's part of the data is kept in a list that later iterations read, and a resize gives"
    " ranks other parts: keep each step in an rs.array, or append what all ranks have together"
    " (allgather)"
)


class Fixed:
    """What the functions around a loop have read already: another value would come too late."""

    def __init__(self, sources: Sources, scopes: list[Scope]) -> None:
        self._held = sources.held(scopes)
        self._iterated = sources.iterated(scopes)

    def why(self, path: Path, told: Told, here: Survey) -> str:
        """Why a rank cannot be given the job's value of a place; empty: it can."""
        if is_beside(path):
            return _BESIDE
        if path in self._held:
            return _HELD
        line = self._made_of(path, here) if self._iterated else None
        if line is not None:
            return _ITERATED.format(line)
        return DELETED if path in told.gone and not _unbinds(here, path) else ""

    def _made_of(self, path: Path, here: Survey) -> int | None:
        """The line of a loop around that goes over what was made of a place; None: none does."""
        origin = here.anchors.origin(path)
        names = [(origin.owner, "v", origin.first[-1]), (None, "a", origin.attribute)]
        held = _dicts_of(here, path)
        keys = [(o, f"{name}{KEYS_OF}") for o, step, name in names if (step, name) not in held]
        every = [*((owner, name) for owner, _, name in names), *keys]
        return next((self._iterated[name] for name in every if name in self._iterated), None)


def _dicts_of(here: Survey, path: Path) -> set[tuple[Any, ...]]:
    """The steps to dicts of which it is, or is part of, a value; no keys are changed with it."""
    (owner, step), found = path, set()
    while (anchor := here.anchors.by_key.get(owner)) is not None:
        if step[0] == "k" and type(anchor.get()) is dict:
            found.add(anchor.parent[1])
        owner, step = anchor.parent
    return found


def _unbinds(here: Survey, path: Path) -> bool:
    """Whether a variable can be deleted here, or need not be."""
    place = here.places.get(path)
    return place is None or not isinstance(place.owner, Scope) or place.owner.unbinds


def hindrance(scopes: Sequence[Scope], facts_of: Callable[[Scope], Facts]) -> str:
    """Why no rank can join; empty: there is nothing.

    scopes: the functions around the loop, outermost first, then the modules
    """
    around = [scope for scope in scopes if scope.frame is not None]
    functions = [scope for scope in around if scope.module is None]
    inner = functions[-1] if functions else next((s for s in around if s.line), None)
    if inner is not None and inner.frame is not None:
        named = inner.frame.f_code.co_name in COMPREHENSIONS
        if named or facts_of(inner).hides_loop(inner.line):
            return f"{short_path(inner.file)}:{inner.line}: {_HIDDEN}"
    return _thread()


def size_hindrance(scopes: Sequence[Scope], facts_of: Callable[[Scope], Facts]) -> str:
    """Return why the number of ranks must not change; empty: it may."""
    for scope in scopes:
        line, counts = facts_of(scope).turn_line()
        if line:
            return f"{short_path(scope.file)}:{line}: {_COUNTS if counts else _TURNS}"
        if line := facts_of(scope).own_file_line():
            return f"{short_path(scope.file)}:{line}: {_OWN_FILE}"
        if line := facts_of(scope).history_line():
            return f"{short_path(scope.file)}:{line}: {_HISTORY}"
    return ""


def growth_hindrance(scopes: Sequence[Scope], facts_of: Callable[[Scope], Facts]) -> str:
    """Return why no rank can join a job of another size; empty: there is nothing."""
    return hindrance(scopes, facts_of) or size_hindrance(scopes, facts_of)


def _thread() -> str:
    for thread in threading.enumerate():
        target = getattr(thread, "_target", None)
        function = target.__func__ if isinstance(target, MethodType) else target
        of_program = isinstance(function, FunctionType) and is_program_function(function)
        if of_program or (is_program_class(type(thread)) and thread is not threading.main_thread()):
            code = getattr(function, "__code__", None)
            where = f"{short_path(code.co_filename)}:{code.co_firstlineno}: " if code else ""
            return (
                f"{where}a thread of the program runs beside the loop ({thread.name}), and what it"
                " has done cannot be copied to a rank that joins: start it in @rs.on_resize, and"
                " end it there, too"
            )
    return ""
