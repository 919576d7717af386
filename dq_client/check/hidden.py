"""Loops inside of expressions, as in `[work(i) for i in rs.iterations(n)]`."""

from __future__ import annotations

import ast

# Calls that take one iteration and leave the loop to who calls them.
ONE_AT_A_TIME = frozenset(("next", "__next__", "send"))
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
