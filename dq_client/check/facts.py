"""What the source of a file says about its variables, for ranks that join a running job.

`facts_of` reads a source; `Facts` answers questions about it. Reading never fails: of what is no
Python, nothing is known. The answers are computed when they are asked for, and kept.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TypeAlias

from dq_client.check import words as w
from dq_client.check.answer import UNKNOWN, Variable
from dq_client.check.hidden import hides_loop, names_held, names_iterated
from dq_client.check.histories import history_line
from dq_client.check.late_files import opens_for_itself
from dq_client.check.liveness import Liveness
from dq_client.check.near import bits_of
from dq_client.check.own_files import file_line
from dq_client.check.plain_forms import in_plain_forms
from dq_client.check.program import Program
from dq_client.check.scopes import Scope, scopes_of
from dq_client.check.statements import program_of
from dq_client.check.turns import turn_line
from dq_client.check.view import View, matters

__all__ = ["Facts", "Variable", "facts_of"]


Lines: TypeAlias = tuple[tuple[int, int], ...]  # functions by their first line, and lines of them


class Facts:
    """Of one source file."""

    def __init__(
        self, tree: ast.Module | None, file: str, parts: frozenset[str] = frozenset()
    ) -> None:
        self.known = tree is not None
        self.file, self._parts = file, parts
        self._tree = tree or ast.Module([], [])
        self._scopes: list[Scope] = []
        self._program: Program | None = None
        self._live: dict[Scope, Liveness] = {}
        self._variables: dict[tuple[int, int, str, Lines], Variable] = {}
        self._views: dict[tuple[int, int, Lines], View] = {}
        self._attributes: dict[tuple[str, Lines], Variable] = {}
        self._mentioned: set[str] | None = None
        self._hides: dict[int, bool] = {}
        self._turn: tuple[int, bool] | None = None
        self._own_file: int | None = None
        self._history: int | None = None
        self._iterated: dict[int, dict[str, int]] = {}
        self._held: dict[tuple[int, str], frozenset[str]] = {}

    def hides_loop(self, line: int) -> bool:
        """Whether the loop that runs at `line` is inside of an expression, not of a `for`."""
        if line not in self._hides:
            self._hides[line] = hides_loop(self._tree, line)
        return self._hides[line]

    def held(self, line: int, callee: str) -> frozenset[str]:
        """Names that the statement at `line` has read before its call of `callee`, which runs."""
        key = line, callee
        if key not in self._held:
            self._held[key] = names_held(self._tree, line, callee)
        return self._held[key]

    def live(self, function: int, line: int, *, again: bool = False) -> frozenset[str]:
        """Names that may be read after control is at `line`, before they are bound again.

        function: `co_firstlineno` of the code object, 0 for the module
        line: of the `for` at whose head control is, or of a call that runs; other lines: all names
        again: rs.iterations will return another iteration there
        """
        scope = self._scope(function, line)
        if scope is None:
            return frozenset()
        if scope not in self._live:
            self._live[scope] = Liveness(scope, self._all_scopes())
        return self._live[scope].at(line, again=again)

    def variable(self, function: int, line: int, name: str, running: Lines = ()) -> Variable:
        """Facts about a name of that function, as seen from the loop, or the call, at `line`.

        running: functions of the file that run now, and their lines
        """
        scope = self._scope(function, line)
        if scope is None or not self.known:
            return UNKNOWN
        owner = scope.owner(name)
        key = (owner.number, line if owner is scope else 0, name, running)
        if key not in self._variables:
            found = self._view(owner.number, key[1], running).variable(name)
            self._variables[key] = self._of_loop(found)
        return self._variables[key]

    def kept(self, function: int, name: str, running: Lines = ()) -> Variable:
        """Facts about what that function keeps: a parameter's default value, or a cell."""
        scope = self._scope(function, function)
        if scope is None or not self.known:
            return UNKNOWN
        owner = scope.owner(name)
        view = self._view(owner.number, 0, running)
        found = view.default(name) if owner is scope else view.cell(name)
        return replace(found, file=self.file)

    def iterated(self, line: int) -> dict[str, int]:
        """Names, and attributes with a dot, that plain loops around `line` have gone over."""
        if line not in self._iterated:
            self._iterated[line] = names_iterated(self._tree, line)
        return self._iterated[line]

    def turn_line(self) -> tuple[int, bool]:
        """Return the line whose work depends on the number of ranks, and whether it counts work.

        0: there is none (turns.py).
        """
        if self._turn is None:
            self._turn = turn_line(self.program(), matters(self.program()))
        return self._turn

    def own_file_line(self) -> int:
        """Return the line that reads what the rank wrote earlier (own_files.py); 0: none does."""
        if self._own_file is None:
            self._own_file = file_line(self.program(), self._view(0, 0, ()).has)
        return self._own_file

    def history_line(self) -> int:
        """Return the line that keeps the rank's part for later iterations (histories.py), or 0."""
        if self._history is None:
            view = self._view(0, 0, ())
            self._history = history_line(self._all_scopes(), view.has, self._depends_on_rank)
        return self._history

    def _depends_on_rank(self, scope: Scope, node: ast.expr) -> bool:
        for part in ast.walk(node):
            if isinstance(part, ast.Attribute) and part.attr in ("rank", "Get_rank"):
                return True
            if isinstance(part, ast.Name):
                owner = scope.owner(part.id)
                found = self._view(owner.number, 0, ()).variable(part.id)
                if "rank" in found.set_up | found.loop:
                    return True
        return False

    def opens_for_itself(self, name: str) -> bool:
        """Whether a rank that finds None there opens its own file, and only writes to it."""
        return opens_for_itself(self._tree, name)

    def items(self, function: int, line: int, running: Lines = ()) -> frozenset[str]:
        """What the items depend on that the loop at `line` goes over."""
        loops = [node for node in ast.walk(self._tree) if isinstance(node, ast.For)]
        parts = [part for node in loops if node.lineno == line for part in ast.walk(node.target)]
        names = [part.id for part in parts if isinstance(part, ast.Name)]
        return frozenset().union(
            *(self.variable(function, line, name, running).loop for name in names)
        )

    def mentions(self, name: str) -> bool:
        """Whether the file reads `something.name`, or imports the name."""
        if self._mentioned is None:
            self._mentioned = set()
            for node in ast.walk(self._tree):
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                    self._mentioned.add(node.attr)
                elif isinstance(node, ast.ImportFrom):
                    self._mentioned |= {alias.name for alias in node.names}
        return name in self._mentioned or "*" in self._mentioned

    def attribute(self, name: str, running: Lines = ()) -> Variable:
        """Facts about the attribute `name` of all objects of the file together."""
        if not self.known:
            return UNKNOWN
        if (name, running) not in self._attributes:
            found = self._view(0, 0, running).attribute(name)
            self._attributes[name, running] = self._of_loop(found)
        return self._attributes[name, running]

    def _of_loop(self, found: Variable) -> Variable:
        """Functions that another file calls may run before the loop: here, in the loop alone."""
        set_up = found.set_up - {"part"} if self._parts else found.set_up
        return replace(found, set_up=set_up, file=self.file)

    def _view(self, scope: int, line: int, running: Lines) -> View:
        key = (scope, line, running)
        if key not in self._views:
            places = [(each.number, at) for f, at in running if (each := self._scope(f, at))]
            self._views[key] = View(self.program(), scope, line, places)
        return self._views[key]

    def program(self) -> Program:
        """The graph that the answers come from."""
        if self._program is None:
            self._program = program_of(self._tree, self._all_scopes())
            for scope in self._all_scopes()[1:]:
                name = scope.in_class if scope.name == "__init__" else scope.name
                if name in self._parts or (scope.name == "__call__" and self._parts):
                    for parameter in scope.parameters[bool(scope.in_class) :]:
                        self._program.bodies[scope.number].root(parameter).source |= w.PART
        return self._program

    def parts_given(self) -> frozenset[str]:
        """Names of functions of other files that the rank's part of the data is given to."""
        given = self.program().given
        return frozenset(name for name, nodes in given if bits_of(nodes) & w.PART)

    def _all_scopes(self) -> list[Scope]:
        if not self._scopes:
            self._scopes = scopes_of(self._tree)
        return self._scopes

    def _scope(self, function: int, line: int) -> Scope | None:
        """The function that begins at this line; of several the one around `line`."""
        fitting = [s for s in self._all_scopes() if s.line == function]
        if not fitting and function == 1:  # as compilers count the module
            return self._all_scopes()[0]
        around = [s for s in fitting if s.line <= line <= _end(s)]
        return next(iter(around or fitting), None)


def facts_of(source: str, file: str, parts: frozenset[str] = frozenset()) -> Facts:
    """Return what the source says; of what is no Python, `known` is False.

    parts: functions that other files give the rank's part of the data to (`parts_given`)
    """
    try:
        return Facts(in_plain_forms(ast.parse(source, file)), file, parts)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Facts(None, file)


def _end(scope: Scope) -> int:
    return getattr(scope.node, "end_lineno", None) or 1 << 30
