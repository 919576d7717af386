"""What the program's source says of its variables, by their place."""

from __future__ import annotations

import ast
import linecache
import os
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import FunctionType, MethodType
from typing import Any

from dq_client.check.facts import Facts, Lines, Variable, tree_of
from dq_client.check.linked import MAIN, Linked, Source, linked
from dq_client.check.program_files import nearest
from dq_client.check.roles import Role
from resize_lib.mistakes import short_path
from resize_lib.state import digests, verdict
from resize_lib.state.places import Path
from resize_lib.state.program import MODULE, Owner, Scope, Sequences, innermost, modules
from resize_lib.state.survey import CLASSES, SETTINGS, Kept, Origin, Survey

NAMED_MAX = 6  # variables in the line of `dq why`
NO_SOURCE = Facts(None, "")


@dataclass(slots=True)
class Sources:
    """Of one process: files are read once, and again as one program when one is imported late."""

    _facts: dict[str, Facts] = field(default_factory=dict)
    _trees: dict[str, ast.Module | None] = field(default_factory=dict)
    _whole: Linked | None = None
    _far: list[Facts] = field(default_factory=list)  # about files too far from the main one
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
            self._read_program(file, names)
        return self._facts[file]

    def _read_program(self, file: str, names: dict[str, Any] | None) -> None:
        """Read all files of the program, this one among them, as one."""
        found: dict[str, tuple[str, str, dict[str, Any] | None]] = {}
        for module in modules():
            inside = vars(module)
            if written := str(inside.get("__file__") or ""):
                found.setdefault(os.path.realpath(written), (module.__name__, written, inside))
        asked = {*self._facts, file}
        for other in asked:  # code of no module, or under another path
            found.setdefault(os.path.realpath(other), (other, other, names))
        sources = [
            Source(name, written, tree, written.endswith(f"{os.sep}__init__.py"))
            for name, written, inside in found.values()
            if (tree := self._tree(written, inside)) is not None
        ]
        near, far = nearest(sorted(sources, key=lambda source: source.name == MAIN))
        self._whole = whole = linked(near) if near else None
        self._facts = {each.file: Facts(each.tree, each.file, whole) for each in near}
        self._far = [Facts(each.tree, each.file) for each in far]
        self._facts |= {each.file: each for each in self._far}
        for other in asked:
            _, written, _ = found[os.path.realpath(other)]
            self._facts.setdefault(other, self._facts.get(written) or Facts(None, ""))
        self._variables, self._by_path, self._of = {}, {}, lambda: None

    def _tree(self, file: str, names: dict[str, Any] | None) -> ast.Module | None:
        if file not in self._trees:
            text = "".join(linecache.getlines(file, names))
            self._trees[file] = tree_of(text, file) if text else None
        return self._trees[file]

    def _running(self, scopes: Iterable[Scope]) -> Lines:
        """The functions that run now."""
        around = [each for each in scopes if each.frame is not None]
        for each in around:
            self.facts_of(each)
        places = ((each.file, each.function, each.line) for each in around)
        return self._whole.running(places) if self._whole is not None else ()

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
            lines = self._running(s for s in survey.scopes.values() if not isinstance(s, Sequences))
            if lines != self._lines:  # else all that has been found out is still so
                self._lines, self._by_path = lines, {}
            self._of = weakref.ref(survey)
        found = self._by_path.get(path)
        if found is None:
            scope = self._scope(survey, path)
            key = survey.anchors.origin(path), self._lines
            if key not in self._variables or isinstance(scope, Sequences):
                self._variables[key] = self._read(scope, key[0])
            found = self._variables[key]
            if not found.used and _is_method(survey, path):  # a call does not show as a use
                found = replace(found, used=True)
            self._by_path[path] = found
        return found

    def _read(self, scope: Scope | None, origin: Origin) -> Variable:
        root, running = verdict.NOT_KNOWN, self._lines
        if isinstance(scope, Sequences):
            items = scope.items(origin.first[1])
            if items is None:
                return replace(root, line=scope.line)
            loop = self._facts_of(items.file).items(items.function, items.line, running)
            own = bool(loop & verdict.LOCAL)
            return replace(root, line=items.line, file=items.file, loop=loop, accumulates=own)
        if scope is not None and origin.first[0] == "v" and self.facts_of(scope).known:
            root = self.facts_of(scope).variable(
                scope.function, scope.line, origin.first[1], running
            )
        cell = self._cell(origin)
        if cell is not None:  # a parameter of the enclosing function has what its call gave it
            bound = cell if (cell.set_up and cell.line) or not root.set_up else root
            root = replace(cell, line=bound.line, file=bound.file, set_up=cell.set_up | root.set_up)
            root = _at_function(root, origin.cell)
        elif origin.memory:
            kept = self._default(origin)
            known = replace(
                root,
                accumulates=True,
                used=kept.used,
                changed_line=kept.changed_line or root.line,  # the function itself changes it
                changed_file=kept.changed_file if kept.changed_line else root.file,
            )
            known = _at_function(known, origin.default)
            set_up = root.set_up | kept.set_up
            role = Role.NONE if kept.role is Role.OPEN else kept.role  # it counts as added up
            return replace(known, set_up=set_up, loop=kept.loop, role=role)
        facts = next((each for each in self._facts.values() if each.known), None)
        if not origin.attribute or facts is None:
            return root
        far = [each.attribute(origin.attribute) for each in self._far]
        return _together(root, [facts.attribute(origin.attribute, running), *far])

    def _cell(self, origin: Origin) -> Variable | None:
        """About a variable of an enclosing function, by the function that keeps it."""
        if origin.cell is None:
            return None
        file, function, name = origin.cell
        facts = self._facts_of(file)
        return facts.kept(function, name, self._lines) if facts.known else None

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
        file = facts.changed_file if line and line == facts.changed_line else facts.file
        line = line or facts.line
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

    found: of the program and of each file far from it; line 0: it only reads it
    """
    used = any(each.used for each in found)
    bound = [each for each in found if each.line]
    if not bound:
        return replace(root, accumulates=True, used=root.used or used)
    changed = next((each for each in bound if each.changed_line), bound[0])
    set_up = frozenset[str]().union(*(each.set_up for each in bound))
    return replace(
        changed,
        accumulates=any(each.accumulates for each in bound),
        used=used,
        summed=any(each.summed for each in found),
        curve=any(each.curve for each in bound),
        recurs=any(each.recurs for each in bound),
        set_up=set_up or root.set_up,
        loop=frozenset[str]().union(*(each.loop for each in bound)),
        rebuilt=root.rebuilt or any(each.rebuilt for each in found),
        reset=any(each.reset for each in bound),
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
