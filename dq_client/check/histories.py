"""Lists of the rank's parts from several iterations, as methods with several steps keep them.

After `steps.append(u.copy())` a later iteration combines `steps[0]` with its own part. A resize
gives the rank another part, and a rank that joins has no earlier ones. Found by the form of the
source: what is appended has the shape of a part, and the loop reads the list.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from dq_client.check.scopes import Function, Scope

APPENDS = frozenset(("append", "appendleft", "insert"))
CHANGES = APPENDS | frozenset(("pop", "popleft", "clear", "extend", "rotate"))
PARTS = frozenset(("local", "interior"))
ALIKE = frozenset(("copy", "astype", "conj", "clip", "real", "imag", "array", "asarray"))
ALIKE |= frozenset(("abs", "absolute", "sqrt", "exp", "log", "sin", "cos", "where", "negative"))

Owns = Callable[[Scope, ast.expr], bool]  # whether an expression depends on the rank's number


def history_lines(
    scopes: Sequence[Scope], runs: Callable[[int, int], bool], depends_on_rank: Owns
) -> Iterator[int]:
    """Yield the lines that add to such a list.

    runs: whether a line of a scope, which goes by its number, runs in the loop
    """
    nodes = [
        (scope, node)
        for scope in scopes
        for node in _own_nodes(scope)
        if isinstance(node, ast.expr | ast.stmt) and runs(scope.number, node.lineno)
    ]
    for scope, node in nodes:
        kept, added = _added(node)
        shape = _Shape(scope, depends_on_rank)
        if any(map(shape.is_part, added)) and _is_read(kept, node, [n for _, n in nodes]):
            yield node.lineno


def _added(node: ast.expr | ast.stmt) -> tuple[str, list[ast.expr]]:
    """Return the list that a node adds to, as it is written, and what it adds."""
    match node:
        case ast.Call(func=ast.Attribute(value=where, attr=name), args=given) if name in APPENDS:
            return ast.unparse(where), given[-1:]
        case ast.AugAssign(op=ast.Add(), target=where, value=ast.List(elts=given)):
            return ast.unparse(where), given
        case ast.Assign(targets=[where], value=ast.List(elts=given)):
            if any(isinstance(e, ast.Starred) and _mentions(e, where) for e in given):
                return ast.unparse(where), given
        case ast.Assign(targets=[where], value=ast.BinOp(op=ast.Add(), left=left, right=right)):
            for old, new in ((left, right), (right, left)):
                if isinstance(new, ast.List) and _mentions(old, where):
                    return ast.unparse(where), new.elts
    return "", []


def _mentions(node: ast.expr, where: ast.expr) -> bool:
    kept = ast.unparse(where)
    return any(isinstance(e, type(where)) and ast.unparse(e) == kept for e in ast.walk(node))


def _is_read(kept: str, change: ast.AST, nodes: list[ast.expr | ast.stmt]) -> bool:
    """Whether the loop uses the list, beyond its changes and its length, and never empties it."""
    uses = [n for n in nodes if isinstance(n, ast.Name | ast.Attribute) and ast.unparse(n) == kept]
    plain = {id(part) for part in ast.walk(change)}
    for node in nodes:
        match node:
            case ast.Call(func=ast.Attribute(value=where, attr="clear")):
                if ast.unparse(where) == kept:
                    return False
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=where, attr=name))):
                if name in CHANGES:  # what it returns is not used
                    plain.add(id(where))
            case ast.Call(func=ast.Name(id="len"), args=[what]):
                plain.add(id(what))
            case ast.Assign(targets=targets) if kept in map(ast.unparse, targets):
                if node is not change and _added(node)[0] != kept:
                    return False
    return any(isinstance(use.ctx, ast.Load) and id(use) not in plain for use in uses)


class _Shape:
    """Which expressions of a scope have the shape of the rank's part."""

    def __init__(self, scope: Scope, depends_on_rank: Owns) -> None:
        self._scope, self._depends_on_rank = scope, depends_on_rank
        self._seen: set[str] = set()

    def is_part(self, node: ast.expr) -> bool:
        """Whether it is a part, or made of one item by item."""
        match node:
            case ast.Attribute(attr=name, value=value):
                return name in PARTS or (name in ALIKE and self.is_part(value))
            case ast.BinOp(op=op, left=left, right=right):
                return not isinstance(op, ast.MatMult) and (
                    self.is_part(left) or self.is_part(right)
                )
            case ast.UnaryOp(operand=value):
                return self.is_part(value)
            case ast.Subscript(value=value, slice=ast.Slice() as part):
                own = any(self._depends_on_rank(self._scope, e) for e in _ends(part))
                return own or (part.lower is part.upper is None and self.is_part(value))
            case ast.Call(func=ast.Attribute(attr=name, value=value), args=given) if name in ALIKE:
                return self.is_part(value) or any(map(self.is_part, given))
            case ast.Name(id=name) if name not in self._seen:
                self._seen.add(name)
                return any(map(self.is_part, self._given_to(name)))
        return False

    def _given_to(self, name: str) -> Iterator[ast.expr]:
        for node in _own_nodes(self._scope):
            if isinstance(node, ast.Assign) and name in map(ast.unparse, node.targets):
                yield node.value


def _ends(part: ast.Slice) -> Iterator[ast.expr]:
    yield from (end for end in (part.lower, part.upper, part.step) if end is not None)


def _own_nodes(scope: Scope) -> Iterator[ast.AST]:
    """The nodes of a scope, without those of functions inside."""
    body = scope.node.body
    todo: list[ast.AST] = list(body) if isinstance(body, list) else [body]
    while todo:
        node = todo.pop()
        if isinstance(node, Function | ast.Lambda):
            continue
        yield node
        todo += ast.iter_child_nodes(node)
