"""What the source of a file says about its variables, for ranks that join a running job.

`facts_of` reads a source; `Facts` answers questions about it. Reading never fails: of what is no
Python, nothing is known. The answers are computed when they are asked for, and kept.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from dq_client.check.liveness import Liveness
from dq_client.check.scopes import Scope, scopes_of


@dataclass(frozen=True, slots=True)
class Variable:
    """How a program treats one of its names, or all attributes of one name."""

    line: int = 0  # where it is bound before the loop, the last such line; else in it; 0: unknown
    accumulates: bool = False  # its new value in the loop depends on the old one
    used: bool = True  # beyond its own update, what is printed, and times
    # What its bindings outside and inside the innermost loop depend on: rank, size, part, clock.
    set_up: frozenset[str] = field(default_factory=frozenset)
    loop: frozenset[str] = field(default_factory=frozenset)
    rebuilt: bool = False  # bound in a function of @rs.on_resize or @rs.setup


UNKNOWN = Variable(accumulates=True)


class Facts:
    """Of one source file."""

    def __init__(self, tree: ast.Module | None, file: str) -> None:
        self.known = tree is not None
        self._file = file
        self._tree = tree or ast.Module([], [])
        self._scopes: list[Scope] = []
        self._live: dict[Scope, Liveness] = {}

    def live(self, function: int, line: int) -> frozenset[str]:
        """Names that may be read after control is at `line`, before they are bound again.

        function: `co_firstlineno` of the code object, 0 for the module
        line: of the `for` at whose head control is, or of a call that runs; other lines: all names
        """
        scope = self._scope(function, line)
        if scope is None:
            return frozenset()
        if scope not in self._live:
            self._live[scope] = Liveness(scope, self._all_scopes())
        return self._live[scope].at(line)

    def variable(self, function: int, line: int, name: str) -> Variable:
        """Facts about a name of that function, as seen from the loop, or the call, at `line`."""
        return UNKNOWN

    def attribute(self, name: str) -> Variable:
        """Facts about the attribute `name` of all objects of the file together."""
        return UNKNOWN

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
        return (around or fitting or [None])[0]


def facts_of(source: str, file: str) -> Facts:
    """Return what the source says; of what is no Python, `known` is False."""
    try:
        return Facts(ast.parse(source, file), file)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Facts(None, file)


def _end(scope: Scope) -> int:
    return getattr(scope.node, "end_lineno", None) or 1 << 30
