"""Loops inside of expressions, as in `[work(i) for i in rs.iterations(n)]`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dq_client.check.scopes import begins_iterations

# Calls that take one iteration and leave the loop to who calls them.
ONE_AT_A_TIME = frozenset(("next", "__next__", "send"))
# What they return follows the container while it changes.
FOLLOWS = frozenset(("enumerate", "zip", "reversed", "iter", "len", "items", "keys", "values"))
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def hides_loop(tree: ast.Module, line: int) -> bool:
    """Whether the loop that runs at `line` is inside of an expression, not of a `for`.

    There the result so far is in no variable, so nobody can copy it.
    """
    statement = _innermost(tree, line)
    if statement is None or not isinstance(
        statement, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Expr | ast.Return
    ):
        return False
    if isinstance(statement.value, ast.Yield | ast.YieldFrom) or statement.value is None:
        return False
    parts = list(ast.walk(statement.value))
    calls = {_name(part.func) for part in parts if isinstance(part, ast.Call)}
    if calls & ONE_AT_A_TIME:
        return False
    return "iterations" in calls or any(isinstance(part, Comprehension) for part in parts)


def _innermost(tree: ast.Module, line: int) -> ast.stmt | None:
    """The statement at a line that contains no other one there."""
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    return max(around, key=lambda node: (node.lineno, -(node.end_lineno or 0)), default=None)


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def names_held(tree: ast.Module, line: int, callee: str) -> frozenset[str]:
    """Names whose value the statement at `line` has read before its call of `callee`, which runs.

    In `total += train()` Python has read `total` before: a new value of the variable has no effect.
    """
    statement = _innermost(tree, line)
    if statement is None:
        return frozenset()
    held = set()
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        held.add(statement.target.id)
    calls = [part for part in ast.walk(statement) if isinstance(part, ast.Call)]
    running = [call for call in calls if _name(call.func) == callee] or calls[:1]
    if isinstance(statement, ast.For | ast.While | ast.With | ast.If | ast.Try) or not running:
        return frozenset(held)
    begins = min((call.lineno, call.col_offset) for call in running)
    return frozenset(
        held
        | {
            part.id
            for part in ast.walk(statement)
            if isinstance(part, ast.Name)
            and isinstance(part.ctx, ast.Load)
            and (part.lineno, part.col_offset) < begins
        }
    )


def names_iterated(tree: ast.Module, line: int) -> dict[str, int]:
    """Names of which plain loops around `line` go over something made of them, with these lines.

    Python has made it when such a loop began, and does not look at the name again. A loop that
    begins before any iteration of the session is left out. Attributes have a dot before them.
    """
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.For | ast.While)]
    around = [n for n in loops if n.lineno < line <= (n.end_lineno or n.lineno)]
    sessions = [n.lineno for n in loops if isinstance(n, ast.For) and begins_iterations(n.iter)]
    found: dict[str, int] = {}
    for loop in around:
        later = any(each.lineno < loop.lineno for each in around)
        later = later or any(at < loop.lineno for at in sessions)
        if later and isinstance(loop, ast.For) and not begins_iterations(loop.iter):
            found |= dict.fromkeys(_made_of(loop.iter), loop.lineno)
    return found


def _made_of(node: ast.AST) -> Iterator[str]:
    """What is read to make something new; of a container itself, nothing is."""
    if isinstance(node, ast.Call) and _name(node.func) in FOLLOWS:
        holder = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        for part in (*node.args, *holder):
            yield from _made_of(part)
    elif not isinstance(node, ast.Name | ast.Attribute):
        yield from _read(node)


def _read(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Attribute):
        yield f".{node.attr}"
        if isinstance(node.value, ast.Attribute):
            yield from _read(node.value)
    elif isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Call) and _name(node.func) in FOLLOWS:
        yield from _made_of(node)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        for part in (node.func.value, *node.args, *(each.value for each in node.keywords)):
            yield from _read(part)
    else:
        for child in ast.iter_child_nodes(node):
            yield from _read(child)
