"""Lists to which each iteration adds one item, such as `losses.append(part.sum())`.

Where the item is the rank's own, a rank that joins has no items of earlier iterations: its list is
shorter, and what is at one place belongs to another iteration. Only the sum of all items, which is
added up over the ranks, does not depend on that. Found by the form of the source.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from dq_client.check.scopes import Function, begins_iterations

SUMS = frozenset(("sum", "fsum", "nansum"))
APPENDS = frozenset(("append", "appendleft"))


def is_curve(bodies: Iterable[ast.AST], name: str) -> bool:
    """Whether iterations add one item each to `name`, and more is used than the sum of all.

    bodies: of the scopes that may use it. name: of a variable; with a dot, of an attribute
    """
    trees = list(bodies)
    is_dict = any(_makes_dict(node, name) for tree in trees for node in ast.walk(tree))
    added = [
        node
        for tree in trees
        for node in _steps(tree)
        if _adds_one(node, name) or (is_dict and _sets_one(node, name))
    ]
    own = {id(part) for node in added for part in ast.walk(node)}
    if not added:
        return False
    for tree in trees:
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Name(id="print")):
                    own |= {id(part) for part in ast.walk(node)}
                case ast.Call() if _last(node.func) in SUMS:
                    own |= {id(each) for each in node.args}
                case ast.Subscript(slice=ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1))):
                    own.add(id(node.value))  # of this iteration
    uses = (part for tree in trees for part in ast.walk(tree) if id(part) not in own)
    return any(
        isinstance(use, ast.Name | ast.Attribute)
        and isinstance(use.ctx, ast.Load)
        and _is_named(use, name)
        for use in uses
    )


def _steps(tree: ast.AST) -> Iterator[ast.stmt]:
    """The statements that each iteration runs once, those of functions among them."""
    for node in ast.walk(tree):
        if isinstance(node, Function) or (
            isinstance(node, ast.For) and begins_iterations(node.iter)
        ):
            yield from node.body


def _adds_one(node: ast.stmt, name: str) -> bool:
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=where, attr=attr), args=[_])):
            return attr in APPENDS and _is_named(where, name)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=where, attr="insert"), args=[_, _])):
            return _is_named(where, name)
        case ast.AugAssign(op=ast.Add(), target=where, value=ast.List(elts=[_])):
            return _is_named(where, name)
        case ast.Assign(targets=[where], value=value) if _is_named(where, name):
            while isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Slice):
                value = value.value
            sides = (value.left, value.right) if isinstance(value, ast.BinOp) else ()
            has_one = any(isinstance(side, ast.List) and len(side.elts) == 1 for side in sides)
            return has_one and any(_is_named(p, name) for side in sides for p in ast.walk(side))
    return False


def _sets_one(node: ast.stmt, name: str) -> bool:
    match node:
        case ast.Assign(targets=[ast.Subscript(value=where, slice=ast.Name())]):
            return _is_named(where, name)
    return False


def _makes_dict(node: ast.AST, name: str) -> bool:
    if not isinstance(node, ast.Assign):
        return False
    value, targets = [node.value], node.targets
    if isinstance(targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
        value, targets = node.value.elts, targets[0].elts
    return any(
        _is_named(target, name)
        and (isinstance(given, ast.Dict) or ast.unparse(given) in ("dict()", "OrderedDict()"))
        for target, given in zip(targets, value, strict=False)
    )


def _is_named(node: ast.AST, name: str) -> bool:
    if name[0] == ".":
        return isinstance(node, ast.Attribute) and node.attr == name[1:]
    return isinstance(node, ast.Name) and node.id == name


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
