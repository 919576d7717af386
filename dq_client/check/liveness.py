"""Which names of a function may still be read after a place in it.

The usual backward analysis over the statements of one scope: a name is live where some way leads to
a read of it before it is bound again. Names that a function inside captures count as read where
that function is called; where it is passed on instead, they are live everywhere.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dq_client.check.scopes import (
    Comprehension,
    Function,
    Scope,
    children,
    statements_of,
    targets_of,
)

Names = frozenset[str]
NONE: Names = frozenset()
SWALLOWS = {"suppress", "raises", "assertRaises"}  # context managers that end an exception


class Liveness:
    """Of one scope; `others`: all scopes of the file."""

    def __init__(self, scope: Scope, others: Iterable[Scope]) -> None:
        self._scope = scope
        self._found: dict[tuple[int, bool], Names] = {}
        self._inner = {s.name: s for s in scope.inner if s.name}
        self._reads: dict[int, Names] = {}
        self._after: dict[ast.stmt, Names] = {}
        self._before: dict[ast.stmt, Names] = {}
        self._head: dict[ast.stmt, Names] = {}  # of loops: at the head, before the next iteration
        self._again: dict[ast.stmt, Names] = {}  # there, if the loop does not end now
        self._loops: list[tuple[Names, Names]] = []  # live after a break, after a continue
        self._caught: list[Names] = [NONE]  # live where an exception may lead
        self._pinned: set[str] = set()
        self._pin(others)
        body = scope.node.body
        if isinstance(body, list):
            self._block(body, NONE)

    def at(self, line: int, *, again: bool = False) -> Names:
        """Names live at the head of the loop in that line, or while a call there runs.

        again: another iteration follows, if that is a loop over `rs.iterations` itself
        """
        if (line, again) not in self._found:
            self._found[line, again] = self._at(line, again=again)
        return self._found[line, again]

    def _at(self, line: int, *, again: bool) -> Names:
        scope = self._scope
        everything = frozenset(scope.bound)
        if scope.parent is None:  # by exec, or in globals(), names are bound that no line shows
            everything |= scope.free
        body = scope.node.body
        found = _statement_at(body, line) if isinstance(body, list) else None
        if found is None or scope.reads_all:
            return everything
        if found in self._head and line <= header_end(found):
            live = self._again.get(found, self._head[found]) if again else self._head[found]
        elif hasattr(found, "body"):
            live = self._before.get(found, NONE)
        else:
            live = (self._after.get(found, NONE) - _binds(found)) | self._rest(found)
        return (live | self._pinned) & everything

    # --- names that functions inside read ---------------------------------------------------------

    def _pin(self, others: Iterable[Scope]) -> None:
        scope = self._scope
        if scope.parent is None:
            for other in others:
                if other is not scope:
                    self._pinned |= {n for n in other.free if other.owner(n) is scope}
            return
        called = dict.fromkeys(self._inner.values(), True)
        callees = set()
        for node in ast.walk(scope.node):
            if isinstance(node, ast.Call):
                callees.add(id(node.func))
        for node in ast.walk(scope.node):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                inner = self._inner.get(node.id)
                if inner is not None and id(node) not in callees:
                    called[inner] = False
            elif isinstance(node, ast.GeneratorExp):
                self._pinned |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        for inner in scope.inner:
            decorated = isinstance(inner.node, Function) and inner.node.decorator_list
            if not called.get(inner) or decorated:
                self._pinned |= self._captured(inner)

    def _captured(self, inner: Scope, seen: tuple[Scope, ...] = ()) -> set[str]:
        names = set(inner.free)
        for name in inner.free:
            beside = self._inner.get(name)
            if beside is not None and beside is not inner and beside not in seen:
                names |= self._captured(beside, (*seen, inner))
        return names

    # --- statements -------------------------------------------------------------------------------

    def _block(self, statements: list[ast.stmt], out: Names) -> Names:
        for statement in reversed(statements):
            out = self._statement(statement, _joined(out, self._caught[-1]))
        return out

    def _statement(self, node: ast.stmt, out: Names) -> Names:
        self._after[node] = _joined(out, self._after.get(node, NONE))
        live = self._before_of(node, out)
        self._before[node] = _joined(live, self._before.get(node, NONE))
        return live

    def _before_of(self, node: ast.stmt, out: Names) -> Names:
        match node:
            case ast.If():
                ways = self._block(node.body, out) | self._block(node.orelse, out)
                return ways | self._read(node.test)
            case ast.For() | ast.AsyncFor() | ast.While():
                return self._loop(node, out)
            case ast.With() | ast.AsyncWith():
                return self._with(node, out)
            case ast.Try() | ast.TryStar():
                return self._try(node, out)
            case ast.Match():
                live = out
                for case in node.cases:
                    live |= self._block(case.body, out)
                return live | self._read(node.subject, *(c.guard for c in node.cases))
            case ast.Return():
                return self._caught[-1] | self._read(node.value)
            case ast.Raise():
                return self._caught[-1] | self._read(node.exc, node.cause)
            case ast.Break():
                return self._loops[-1][0] if self._loops else out
            case ast.Continue():
                return self._loops[-1][1] if self._loops else out
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                given = node.args
                parts = (*node.decorator_list, *given.defaults, *given.kw_defaults)
                return (out - {node.name}) | self._read(*parts)
            case ast.ClassDef():
                return (out - {node.name}) | self._read(node)
        bound = _binds(node)
        left = out if out.isdisjoint(bound) else out - bound
        return _joined(left, self._read(node))

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, out: Names) -> Names:
        left = self._block(node.orelse, out)
        if isinstance(node, ast.While):
            test, bound = self._read(node.test), NONE
        else:
            test, bound = self._read(node.target), _targets(node.target)
        inside, head = test, left | test
        for _ in range(2):  # what the first round finds at the head, the second has at the end
            self._loops.append((out, head))
            inside = test | (self._block(node.body, head) - bound)
            head = left | inside
            self._loops.pop()
        if _is_over_iterations(node):
            self._again[node] = self._again.get(node, NONE) | inside
        self._head[node] = self._head.get(node, NONE) | head
        return head if isinstance(node, ast.While) else head | self._read(node.iter)

    def _with(self, node: ast.With | ast.AsyncWith, out: Names) -> Names:
        reads = self._read(*(item.context_expr for item in node.items))
        names = {n.attr if isinstance(n, ast.Attribute) else getattr(n, "id", "")
                 for item in node.items for n in ast.walk(item.context_expr)}  # fmt: skip
        self._caught.append(self._caught[-1] | (out if names & SWALLOWS else NONE))
        live = self._block(node.body, out)
        self._caught.pop()
        for item in node.items:
            if item.optional_vars is not None:
                live = (live - _targets(item.optional_vars)) | self._read(item.optional_vars)
        return live | reads

    def _try(self, node: ast.Try | ast.TryStar, out: Names) -> Names:
        last = self._block(node.finalbody, out)
        caught = self._caught[-1] | (last if node.finalbody else NONE)
        self._caught.append(caught)
        handlers = NONE
        for handler in node.handlers:
            live = self._block(handler.body, last)
            handlers |= (live - {handler.name or ""}) | self._read(handler.type)
        orelse = self._block(node.orelse, last)
        self._caught[-1] = caught | handlers
        live = self._block(node.body, orelse)
        self._caught.pop()
        return live | handlers

    # --- expressions ------------------------------------------------------------------------------

    def _read(self, *nodes: ast.AST | None) -> Names:
        found: Names = NONE
        for node in nodes:
            if node is not None:
                if id(node) not in self._reads:
                    names: set[str] = set()
                    self._expression(node, NONE, names)
                    self._reads[id(node)] = frozenset(names)
                found |= self._reads[id(node)]
        return found

    def _expression(self, node: ast.AST, hidden: Names, names: set[str]) -> None:
        if isinstance(node, ast.Name):
            updated = isinstance(node.ctx, ast.Load)
            if updated and node.id not in hidden:
                names.add(node.id)
                inner = self._inner.get(node.id)
                if inner is not None:
                    names |= self._captured(inner)
            return
        if isinstance(node, ast.Lambda):
            return  # pinned
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        if isinstance(node, Comprehension):
            hidden = hidden | targets_of(node)
        for part in children(node):
            self._expression(part, hidden, names)

    def _rest(self, node: ast.stmt) -> Names:
        """What a statement may read once a call in it has returned."""
        value = getattr(node, "value", None)
        if isinstance(value, ast.Await | ast.YieldFrom):
            value = value.value
        if not isinstance(value, ast.Call):
            return self._read(node)
        inside = (*value.args, *(keyword.value for keyword in value.keywords))
        if any(isinstance(n, ast.Call) for part in inside for n in ast.walk(part)):
            return self._read(node)
        targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
        live = self._read(*targets)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            live |= {node.target.id}
        return live


def _statement_at(body: list[ast.stmt], line: int) -> ast.stmt | None:
    """The innermost statement around a line."""
    found = None
    for statement in statements_of(body):
        first = min(
            [statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", []))]
        )
        if first <= line <= (statement.end_lineno or first):
            found = statement
    return found


def _is_over_iterations(node: ast.stmt) -> bool:
    """Whether a loop asks `rs.iterations` alone whether it ends, and no zip around that."""
    if not isinstance(node, ast.For) or not isinstance(node.iter, ast.Call):
        return False
    called = node.iter.func
    return isinstance(called, ast.Attribute) and called.attr == "iterations"


def header_end(node: ast.stmt) -> int:
    """The last line of a loop's head."""
    head = node.test if isinstance(node, ast.While) else getattr(node, "iter", node)
    return head.end_lineno or node.lineno


def _joined(names: Names, more: Names) -> Names:
    """All of both; `names` itself where that is all. Sets are large here, and seldom change."""
    return names if more <= names else names | more


def _targets(node: ast.expr) -> Names:
    return frozenset(
        n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    )


def _binds(node: ast.stmt) -> Names:
    """The names that a simple statement binds, or deletes."""
    match node:
        case ast.Assign():
            return frozenset().union(*(_targets(target) for target in node.targets))
        case ast.AnnAssign():
            return _targets(node.target) if node.value is not None else NONE
        case ast.Delete():
            return frozenset(t.id for t in node.targets if isinstance(t, ast.Name))
        case ast.Import() | ast.ImportFrom():
            return frozenset(a.asname or a.name.partition(".")[0] for a in node.names)
    return NONE
