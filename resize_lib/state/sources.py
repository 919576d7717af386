"""What the program's source says of its variables, by their place."""

from __future__ import annotations

import linecache
from dataclasses import dataclass, field, replace

from dq_client.check.facts import Facts, Variable, facts_of
from resize_lib.mistakes import short_path
from resize_lib.state import verdict
from resize_lib.state.program import MODULE, Owner, Scope
from resize_lib.state.survey import CLASSES, SETTINGS, Path, Survey

MEMORIES = frozenset(("c", "d", "w"))  # steps to what a function keeps: cells and defaults


@dataclass(slots=True)
class Sources:
    """Of one process: files are read once."""

    _facts: dict[str, Facts] = field(default_factory=dict)

    def facts_of(self, scope: Scope) -> Facts:
        """About the file of a function or module."""
        if scope.file not in self._facts:
            names = scope.frame.f_globals if scope.frame is not None else None
            source = "".join(linecache.getlines(scope.file, names))
            self._facts[scope.file] = facts_of(source, scope.file) if source else Facts(None, "")
        return self._facts[scope.file]

    def live(self, scopes: list[Scope]) -> dict[Owner, frozenset[str]]:
        """Which variables matter from here on; of a file without source: all."""
        return {
            scope.owner: facts.live(scope.function, scope.line)
            for scope in scopes
            if (facts := self.facts_of(scope)).known
        }

    def variable(self, survey: Survey, path: Path) -> Variable:
        """About a variable, attribute or item."""
        scope = self._scope(survey, path)
        _, steps = survey.anchors.root(path)
        root = verdict.NOT_KNOWN
        if scope is not None and steps[0][0] == "v" and self.facts_of(scope).known:
            root = self.facts_of(scope).variable(scope.function, scope.line, steps[0][1])
        if any(step[0] in MEMORIES for step in steps):
            return replace(root, accumulates=True, used=True)
        names = [step[1] for step in steps if step[0] == "a"]
        if not names:
            return root
        found = [facts.attribute(names[-1]) for facts in self._facts.values() if facts.known]
        return _together(root, [each for each in found if each.line])

    def is_known(self, survey: Survey, path: Path) -> bool:
        """Whether there is a source that says something about it."""
        scope = self._scope(survey, path)
        return scope is None or self.facts_of(scope).known

    def line_of(self, survey: Survey, path: Path, line: int = 0) -> str:
        """`file:line` where it is bound; line: the one to name."""
        scope = self._scope(survey, path)
        if scope is None:
            return "the program"
        return f"{short_path(scope.file)}:{line or self.variable(survey, path).line or scope.line}"

    def _scope(self, survey: Survey, path: Path) -> Scope | None:
        owner, _ = survey.anchors.root(path)
        if owner[0] == CLASSES:
            owner = (MODULE, owner[1])
        return survey.scopes.get(owner)


def is_setting(path: Path) -> bool:
    """Whether it is something that a process has once (settings.py)."""
    return bool(path[0][:1] == (SETTINGS,))


def shown(survey: Survey, path: Path) -> str:
    """A place as a programmer writes it."""
    return str(path[0][1]) if is_setting(path) else survey.anchors.shown(path)


def _together(root: Variable, found: list[Variable]) -> Variable:
    """Facts about an attribute, with those of the variable that holds the object."""
    if not found:
        return replace(root, accumulates=True)
    set_up = frozenset().union(*(each.set_up for each in found))
    return replace(
        found[0],
        accumulates=any(each.accumulates for each in found),
        used=any(each.used for each in found),
        set_up=set_up or root.set_up,
        loop=frozenset().union(*(each.loop for each in found)),
        rebuilt=root.rebuilt or any(each.rebuilt for each in found),
    )
