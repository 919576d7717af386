"""What the source of a file says about its variables, for ranks that join a running job.

`facts_of` reads a source; `Facts` answers questions about it. Reading never fails: of what is no
Python, nothing is known. The answers are computed when they are asked for, and kept.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import replace

from dq_client.check.answer import UNKNOWN, Variable
from dq_client.check.hidden import hides_loop, names_held, names_iterated
from dq_client.check.histories import history_lines
from dq_client.check.late_files import opens_for_itself
from dq_client.check.linked import MAIN, Lines, Linked, Source, linked
from dq_client.check.liveness import Liveness
from dq_client.check.own_files import file_lines
from dq_client.check.plain_forms import in_plain_forms
from dq_client.check.program import Program
from dq_client.check.scopes import Scope, own_scope, scopes_of
from dq_client.check.turns import turn_lines

__all__ = ["Facts", "Lines", "Variable", "facts_of"]


class Facts:
    """Of one source file; whole: the program that it belongs to, by default it alone."""

    def __init__(self, tree: ast.Module | None, file: str, whole: Linked | None = None) -> None:
        self.known = tree is not None
        self.file = file
        self._tree = tree or ast.Module([], [])
        self._whole = whole or linked([Source(MAIN, file, self._tree)])
        self._scopes: list[Scope] = []
        self._live: dict[Scope, Liveness] = {}
        self._variables: dict[tuple[int, int, str, Lines], Variable] = {}
        self._attributes: dict[tuple[str, Lines], Variable] = {}
        self._mentioned: set[str] | None = None
        self._hides: dict[int, bool] = {}
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
        given = self._whole.given(self.file) if scope.parent is None else frozenset[str]()
        return self._live[scope].at(line, again=again) | given

    def variable(self, function: int, line: int, name: str, running: Lines = ()) -> Variable:
        """Facts about a name of that function, as seen from the loop, or the call, at `line`.

        running: functions of the program that run now, and their lines (Linked.running)
        """
        scope = self._scope(function, line)
        if scope is None or not self.known:
            return UNKNOWN
        owner = scope.owner(name)
        number, called = self._owner(owner, name)
        key = (number, self._whole.line(self.file, line) if owner is scope else 0, name, running)
        if key not in self._variables:
            found = self._whole.view(number, key[1], running).variable(called)
            self._variables[key] = self._in_files(found)
        return self._variables[key]

    def kept(self, function: int, name: str, running: Lines = ()) -> Variable:
        """Facts about what that function keeps: a parameter's default value, or a cell."""
        scope = self._scope(function, function)
        if scope is None or not self.known:
            return UNKNOWN
        owner = scope.owner(name)
        number, called = self._owner(owner, name)
        view = self._whole.view(number, 0, running)
        found = view.default(called) if owner is scope else view.cell(called)
        return self._in_files(found)

    def iterated(self, line: int) -> dict[str, int]:
        """Names, and attributes with a dot, that plain loops around `line` have gone over."""
        if line not in self._iterated:
            self._iterated[line] = names_iterated(self._tree, line)
        return self._iterated[line]

    def turn_line(self) -> tuple[int, bool]:
        """Return the line whose work depends on the number of ranks, and whether it counts work.

        0: there is none in this file (turns.py).
        """
        program = self.program()
        turns = self._whole.once(turn_lines, program, program.matters())
        return next(((here, counts) for at, counts in turns if (here := self.here(at))), (0, False))

    def own_file_line(self) -> int:
        """Return the line that reads what the rank wrote earlier (own_files.py); 0: none does."""
        has = self._whole.view(0, 0, ()).has
        return self._first(self._whole.once(file_lines, self.program(), has))

    def history_line(self) -> int:
        """Return the line that keeps the rank's part for later iterations (histories.py), or 0."""
        has, whole = self._whole.view(0, 0, ()).has, self._whole
        return self._first(whole.once(history_lines, whole.scopes, has, self._depends_on_rank))

    def _first(self, lines: Iterable[int]) -> int:
        return next(filter(None, map(self.here, lines)), 0)

    def here(self, line: int) -> int:
        """The line of this file that is a line of the program; 0: it is of another file."""
        file, here = self._whole.place(line)
        return here if file == self.file else 0

    def _depends_on_rank(self, scope: Scope, node: ast.expr) -> bool:
        for part in ast.walk(node):
            if isinstance(part, ast.Attribute) and part.attr in ("rank", "Get_rank"):
                return True
            if isinstance(part, ast.Name):
                owner = scope.owner(part.id)
                found = self._whole.view(owner.number, 0, ()).variable(part.id)
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
        """Facts about the attribute `name` of all objects of the program together."""
        if not self.known:
            return UNKNOWN
        if (name, running) not in self._attributes:
            found = self._whole.view(0, 0, running).attribute(name)
            self._attributes[name, running] = self._in_files(found)
        return self._attributes[name, running]

    def _owner(self, owner: Scope, name: str) -> tuple[int, str]:
        """The number of a scope, and the name of its variable, in the whole program."""
        called = name if owner.parent is not None else self._whole.name(self.file, name)
        return self._whole.number(self.file, owner), called

    def _in_files(self, found: Variable) -> Variable:
        """Facts with the lines of the files that they are in."""
        file, line = self._whole.place(found.line) if found.line else (self.file, 0)
        changed = found.changed_line
        changed_file, changed = self._whole.place(changed) if changed else (self.file, 0)
        return replace(found, file=file, line=line, changed_file=changed_file, changed_line=changed)

    def program(self) -> Program:
        """The graph that the answers come from."""
        return self._whole.program

    def _all_scopes(self) -> list[Scope]:
        if not self._scopes:
            self._scopes = scopes_of(self._tree)
        return self._scopes

    def _scope(self, function: int, line: int) -> Scope | None:
        return own_scope(self._all_scopes(), function, line)


def facts_of(source: str, file: str) -> Facts:
    """Return what the source says; of what is no Python, `known` is False."""
    return Facts(tree_of(source, file), file)


def tree_of(source: str, file: str) -> ast.Module | None:
    """Return a source in plain forms; None: it is no Python."""
    try:
        return in_plain_forms(ast.parse(source, file))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
