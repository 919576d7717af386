"""Loops inside of expressions, as in `[work(i) for i in rs.iterations(n)]`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dq_client.check.scopes import begins_iterations

# Calls that take one iteration and leave the loop to who calls them.
ONE_AT_A_TIME = frozenset(("next", "__next__", "send"))
# What they return follows the container while it changes.
FOLLOWS = frozenset(("enumerate", "zip", "reversed", "iter", "items", "keys", "values"))
# Of a dict they take the keys alone; what is made of these has this behind its name.
TAKES_KEYS = frozenset(("sorted", "list", "tuple", "set", "frozenset"))
KEYS_OF = "[]"
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def hides_loop(tree: ast.Module, line: int) -> bool:
    """Whether the loop that runs at `line` is inside of an expression, not of a `for`.

    There the result so far is in no variable, so nobody can copy it. What is given to rs.map is
    complete when its loop begins.
    """
    statement = _innermost(tree, line)
    if statement is None or not isinstance(
        statement, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Expr | ast.Return
    ):
        return False
    if isinstance(statement.value, ast.Yield | ast.YieldFrom) or statement.value is None:
        return False
    parts = list(ast.walk(statement.value))
    calls = [part for part in parts if isinstance(part, ast.Call)]
    names = {name_of(call.func) for call in calls}
    if names & ONE_AT_A_TIME:
        return False
    farms = [call for call in calls if name_of(call.func) == "map"]
    before = {part for farm in farms for each in farm.args for part in ast.walk(each)}
    return "iterations" in names or any(
        isinstance(part, Comprehension) and part not in before for part in parts
    )


def _innermost(tree: ast.Module, line: int) -> ast.stmt | None:
    """The statement at a line that contains no other one there."""
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    return max(around, key=lambda node: (node.lineno, -(node.end_lineno or 0)), default=None)


def name_of(function: ast.expr) -> str:
    """The last part of what is called; empty for what has no name."""
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
    running = [call for call in calls if name_of(call.func) == callee] or calls[:1]
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
    bound = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and _binds(n)}
    bound |= {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    found: dict[str, int] = {}
    for loop in around:
        later = any(each.lineno < loop.lineno for each in around)
        later = later or any(at < loop.lineno for at in sessions)
        if later and isinstance(loop, ast.For) and not begins_iterations(loop.iter):
            names = set(_made_of(loop.iter))
            if bound & TAKES_KEYS:  # the program's own `sorted` may read anything
                names = {name.removesuffix(KEYS_OF) for name in names}
            found |= dict.fromkeys(names, loop.lineno)
    return found


def _binds(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def _made_of(node: ast.AST) -> Iterator[str]:
    """What is read to make something new; of a container itself, nothing is."""
    if isinstance(node, ast.Call) and name_of(node.func) in FOLLOWS:
        holder = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        for part in (*node.args, *holder):
            yield from _made_of(part)
    elif not isinstance(node, ast.Name | ast.Attribute):
        yield from _read(node)


def _read(node: ast.AST) -> Iterator[str]:
    if (held := _keys_taken(node)) is not None:
        if isinstance(held, ast.Attribute):
            yield from _read(held.value) if isinstance(held.value, ast.Attribute) else ()
            yield f".{held.attr}{KEYS_OF}"
        else:
            yield f"{held.id}{KEYS_OF}"
    elif isinstance(node, ast.Attribute):
        yield f".{node.attr}"
        if isinstance(node.value, ast.Attribute):
            yield from _read(node.value)
    elif isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        for part in (node.func.value, *node.args, *(each.value for each in node.keywords)):
            yield from _read(part)
    else:
        for child in ast.iter_child_nodes(node):
            yield from _read(child)


def _keys_taken(node: ast.AST) -> ast.Name | ast.Attribute | None:
    """The `d` of `sorted(d)` or `list(d.keys())`, which reads no value of a dict; else None."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
        return None
    if node.func.id not in TAKES_KEYS or len(node.args) != 1:
        return None
    if any(each.arg != "reverse" for each in node.keywords):
        return None
    (held,) = node.args
    if isinstance(held, ast.Call) and name_of(held.func) == "keys" and not held.args:
        held = held.func.value if isinstance(held.func, ast.Attribute) else held
    return held if isinstance(held, ast.Name | ast.Attribute) else None
