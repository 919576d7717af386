"""What the program's source says of its variables, by their place."""

from __future__ import annotations

import linecache
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import FunctionType, MethodType
from typing import Any

from dq_client.check.facts import Facts, Lines, Variable, facts_of
from resize_lib.mistakes import short_path
from resize_lib.state import digests, verdict
from resize_lib.state.places import Path
from resize_lib.state.program import MODULE, Owner, Scope, Sequences, innermost, modules
from resize_lib.state.survey import CLASSES, SETTINGS, Kept, Origin, Survey

NAMED_MAX = 6  # variables in the line of `dq why`
NO_SOURCE = Facts(None, "")
SESSION = "resize_lib"  # in the source of a file that uses a session


@dataclass(slots=True)
class Sources:
    """Of one process: files are read once."""

    _facts: dict[str, Facts] = field(default_factory=dict)
    _variables: dict[tuple[Origin, Lines], Variable] = field(default_factory=dict)
    _lines: Lines = ()  # that run in the survey `_of`
    _by_path: dict[Path, Variable] = field(default_factory=dict)  # where these run
    _of: Callable[[], Survey | None] = lambda: None

    def facts_of(self, scope: Scope) -> Facts:
        """About the file of a function or module."""
        if isinstance(scope, Sequences):
            return NO_SOURCE
        return self._facts_of(scope.file, scope.frame.f_globals if scope.frame else None)

    def _facts_of(self, file: str, names: dict[str, Any] | None = None) -> Facts:
        if file not in self._facts:
            source = "".join(linecache.getlines(file, names))
            parts = frozenset[str]() if SESSION in source else self._parts_given()
            self._facts[file] = facts_of(source, file, parts) if source else Facts(None, "")
        return self._facts[file]

    def _parts_given(self) -> frozenset[str]:
        """Functions that the files with a session give the rank's part of the data to."""
        found = set[str]()
        for module in modules():
            names = vars(module)
            file = names.get("__file__") or ""
            if SESSION in "".join(linecache.getlines(file, names)):
                found |= self._facts_of(file, names).parts_given()
        return frozenset(found)

    def read(self, survey: Survey, paths: Iterable[Path]) -> None:
        """Find out about these before somebody waits for it."""
        for path in paths:
            self.variable(survey, path)

    def live(self, scopes: list[Scope], *, again: bool) -> dict[Owner, frozenset[str]]:
        """Which variables matter from here on; of a file without source: all.

        again: the innermost loop has another iteration. What each iteration binds before it reads
        it does not matter then, although the program may read it after the loop.
        """
        inner = innermost(scopes)
        return {
            scope.owner: facts.live(scope.function, scope.line, again=again and scope is inner)
            for scope in scopes
            if (facts := self.facts_of(scope)).known
        }

    def held(self, scopes: list[Scope]) -> set[Path]:
        """Variables that a caller has read before the call that runs: it would not see others."""
        frames = [scope for scope in scopes if scope.frame is not None and scope.module is None]
        bodies = [scope for scope in scopes if scope.module is not None and scope.line]
        found: set[Path] = set()
        for caller, callee in pairwise([*bodies, *frames]):
            assert callee.frame is not None, "it runs"
            names = self.facts_of(caller).held(caller.line, callee.frame.f_code.co_name)
            found |= {(caller.owner, ("v", name)) for name in names}
        return found

    def iterated(self, scopes: list[Scope]) -> dict[tuple[Owner | None, str], int]:
        """Variables, and attributes, of which loops around go over something; with their lines."""
        found: dict[tuple[Owner | None, str], int] = {}
        for scope in scopes:
            if scope.line and not isinstance(scope, Sequences):
                for name, line in self.facts_of(scope).iterated(scope.line).items():
                    found[None if name[0] == "." else scope.owner, name.lstrip(".")] = line
        return found

    def variable(self, survey: Survey, path: Path) -> Variable:
        """About a variable, attribute or item."""
        if self._of() is not survey:
            around = (s for s in survey.scopes.values() if not isinstance(s, Sequences))
            lines = tuple((s.function, s.line) for s in around)
            if lines != self._lines:  # else all that has been found out is still so
                self._lines, self._by_path = lines, {}
            self._of = weakref.ref(survey)
        found = self._by_path.get(path)
        if found is None:
            scope = self._scope(survey, path)
            key = survey.anchors.origin(path), self._lines
            if key not in self._variables or isinstance(scope, Sequences):
                self._variables[key] = self._read(scope, key[0], survey.scopes.values())
            found = self._variables[key]
            if not found.used and _is_method(survey, path):  # a call does not show as a use
                found = replace(found, used=True)
            self._by_path[path] = found
        return found

    def _read(self, scope: Scope | None, origin: Origin, scopes: Iterable[Scope]) -> Variable:
        root = verdict.NOT_KNOWN
        if isinstance(scope, Sequences):
            items = scope.items(origin.first[1])
            if items is None:
                return replace(root, line=scope.line)
            running = running_in(items.file, scopes)
            loop = self._facts_of(items.file).items(items.function, items.line, running)
            own = bool(loop & verdict.LOCAL)
            return replace(root, line=items.line, file=items.file, loop=loop, accumulates=own)
        if scope is not None and origin.first[0] == "v" and self.facts_of(scope).known:
            root = self.facts_of(scope).variable(
                scope.function, scope.line, origin.first[1], running_in(scope.file, scopes)
            )
        cell = self._cell(origin, scopes)
        if cell is not None:  # a parameter of the enclosing function has what its call gave it
            bound = cell if (cell.set_up and cell.line) or not root.set_up else root
            root = replace(cell, line=bound.line, file=bound.file, set_up=cell.set_up | root.set_up)
            root = _at_function(root, origin.cell)
        elif origin.memory:
            kept = self._default(origin)
            changed = kept.changed_line or root.line  # the function itself changes it
            known = replace(root, accumulates=True, used=kept.used, changed_line=changed)
            known = _at_function(known, origin.default)
            set_up = root.set_up | kept.set_up
            return replace(known, set_up=set_up, loop=kept.loop, role=kept.role)
        imported = scope is not None and scope.module is not None and not scope.line
        if not origin.attribute and not (imported and origin.first[0] == "v"):
            return root
        for each in scopes:
            self.facts_of(each)
        files = [facts for facts in self._facts.values() if facts.known]
        if origin.attribute:
            name = origin.attribute
            found = [facts.attribute(name, running_in(facts.file, scopes)) for facts in files]
            return _together(root, found)
        # The globals of a module are used by the files that import them.
        others = [facts for facts in files if scope is not None and facts.file != scope.file]
        used = root.used or any(facts.mentions(origin.first[1]) for facts in others)
        return replace(root, used=used)

    def _cell(self, origin: Origin, scopes: Iterable[Scope]) -> Variable | None:
        """About a variable of an enclosing function, by the function that keeps it."""
        if origin.cell is None:
            return None
        file, function, name = origin.cell
        facts = self._facts_of(file)
        running = running_in(file, scopes)
        return facts.kept(function, name, running) if facts.known else None

    def _default(self, origin: Origin) -> Variable:
        """About a parameter whose default argument a function keeps."""
        if origin.default is None:
            return verdict.NOT_KNOWN
        file, function, name = origin.default
        return self._facts_of(file).kept(function, name)

    def opens_for_itself(self, survey: Survey, path: Path) -> bool:
        """Whether a rank that finds None there opens a file of its own, and only writes to it."""
        if path[1][0] not in ("v", "a"):
            return False
        scope, name = self._scope(survey, path), path[1][1]
        files = [facts for facts in self._facts.values() if facts.known]
        opening = [facts for facts in files if facts.opens_for_itself(name)]
        if path[1][0] == "v" and (scope is None or self.facts_of(scope) not in opening):
            return False
        others = (facts for facts in files if facts not in opening)
        return bool(opening) and not any(facts.mentions(name) for facts in others)

    def is_known(self, survey: Survey, path: Path) -> bool:
        """Whether there is a source that says something about it."""
        scope = self._scope(survey, path)
        return scope is None or self.facts_of(scope).known

    def line_of(self, survey: Survey, path: Path, line: int = 0) -> str:
        """`file:line` where it is bound; line: the one to name."""
        scope = self._scope(survey, path)
        if scope is None:
            return "the program"
        facts = self.variable(survey, path)
        line = line or facts.line
        file = facts.file if line else scope.file
        return f"{short_path(file or scope.file)}:{line or scope.line}"

    def _scope(self, survey: Survey, path: Path) -> Scope | None:
        owner = survey.anchors.origin(path).owner
        if owner[0] == CLASSES:
            owner = (MODULE, owner[1])
        return survey.scopes.get(owner)


def _at_function(facts: Variable, kept: Kept | None) -> Variable:
    """Facts about what a function keeps, with its line where none is known."""
    if facts.line or kept is None:
        return facts
    return replace(facts, line=kept[1], file=kept[0])


def running_in(file: str, scopes: Iterable[Scope]) -> Lines:
    """The functions of a file that run now, by their first lines, and the lines that run."""
    return tuple((s.function, s.line) for s in scopes if s.file == file and s.frame is not None)


def _is_method(survey: Survey, path: Path) -> bool:
    """Whether it is what a class or an object has as a method or property."""
    place = survey.places.get(path)
    value = place.get() if place is not None and path[1][0] == "a" else None
    return isinstance(value, FunctionType | MethodType) or bool(digests.wrapped(value))


def is_setting(path: Path) -> bool:
    """Whether it is something that a process has once (settings.py)."""
    return bool(path[0][:1] == (SETTINGS,))


def shown(survey: Survey, path: Path) -> str:
    """A place as a programmer writes it."""
    return str(path[0][1]) if is_setting(path) else survey.anchors.shown(path)


def _together(root: Variable, found: list[Variable]) -> Variable:
    """Facts about an attribute, with those of the variable that holds the object.

    found: of each file; line 0: it only reads it
    """
    bound = [each for each in found if each.line]
    if not bound:
        return replace(root, accumulates=True, used=root.used or any(each.used for each in found))
    set_up = frozenset().union(*(each.set_up for each in bound))
    changed = next((each for each in bound if each.changed_line), bound[0])
    return replace(
        changed,
        accumulates=any(each.accumulates for each in bound),
        used=any(each.used for each in found),
        summed=any(each.summed for each in found),
        curve=any(each.curve for each in bound),
        set_up=set_up or root.set_up,
        loop=frozenset().union(*(each.loop for each in bound)),
        rebuilt=root.rebuilt or any(each.rebuilt for each in found),
    )


def summary(sizes: Mapping[Path, int], found: Survey) -> str:
    """What travels, for `dq why`."""
    if not sizes:
        return ""
    largest = sorted(sizes, key=lambda path: -sizes[path])
    named = [f"{shown(found, path)} ({_bytes(sizes[path])})" for path in largest[:NAMED_MAX]]
    more = f" and {len(largest) - NAMED_MAX} more" if len(largest) > NAMED_MAX else ""
    return f"{_bytes(sum(sizes.values()))} in all, {', '.join(named)}{more}"


def _bytes(count: int) -> str:
    for unit, size in (("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"
