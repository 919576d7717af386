"""Values of a rank's own that a rank which joins cannot begin with.

Ranks that add up what they have (`mine += x.local.sum()`) may be joined by one that begins with the
value of the set-up: the sum over the ranks stays right. So does a maximum. It does not where the
next value is computed from the last one in another way (`mean = 0.9 * mean + 0.1 * part.mean()`),
nor where the sum is divided by the number of ranks.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dq_client.check.graph import Node, lead_back
from dq_client.check.near import near_of
from dq_client.check.program import Program

SUMS = ast.Add | ast.Sub | ast.BitOr | ast.BitAnd
EXTREMES = frozenset(
    ("max", "min", "maximum", "minimum", "fmax", "fmin", "logical_or", "logical_and")
)


def added(
    target: ast.expr, source: ast.expr | None, operands: dict[int, list[list[Node]]]
) -> list[Node] | None:
    """Return what is added to a variable, or compared with it: of `x = x + y`, y; else None.

    operands: of sums and extremes of the program, by their expression's id
    """
    sides, parts = operands.get(id(source)), list[ast.expr]()
    match source:
        case ast.BinOp():
            parts = [source.left, source.right]
        case ast.Call():
            parts = source.args
    if sides is None:
        return None
    if any(map(is_text, parts)):
        return None  # lines of a rank's own, of which another rank has fewer
    found, others = False, list[Node]()
    for part, nodes in zip(parts, sides, strict=False):
        inner = added(target, part, operands)
        is_first = part is parts[0] or not _is_difference(source)
        if is_first and (inner is not None or _is_same(part, target)):
            found = True
            others += inner or ()
        else:
            others += nodes
    return others if found else None


def is_text(part: ast.expr) -> bool:
    """Whether an expression is a text as it is written."""
    is_constant = isinstance(part, ast.Constant) and isinstance(part.value, str)
    return is_constant or isinstance(part, ast.JoinedStr)


def _is_difference(source: ast.expr | None) -> bool:
    return isinstance(source, ast.BinOp) and isinstance(source.op, ast.Sub)


def _is_same(part: ast.expr, target: ast.expr) -> bool:
    """Whether it reads the target; `d.get(k, 0)` reads `d[k]`."""
    if isinstance(target, ast.Subscript) and isinstance(part, ast.Call) and part.args:
        read = ast.unparse(part.func), ast.unparse(part.args[0])
        return read == (f"{ast.unparse(target.value)}.get", ast.unparse(target.slice))
    return ast.unparse(part) == ast.unparse(target)


def recurs(changes: Iterable[Node], heads: set[Node], program: Program) -> bool:
    """Whether an assignment computes it from what it was, and not as a sum or an extreme."""
    whole = program.whole()
    for change in changes:
        if not change.assigned or change.call is not None:
            continue
        if change.added is None and lead_back([change], heads, whole, conditions=False):
            return True
        if change.added and lead_back(change.added, heads, whole, computed=True, conditions=False):
            return True
    return False


def is_averaged(nodes: set[Node], program: Program) -> bool:
    """Whether something made of it is divided by the number of ranks."""
    for quotient in program.quotients:
        if quotient.is_by_size:
            sums = [node for node in near_of(quotient.over) if node.shared]
            if not nodes.isdisjoint(near_of(part for node in sums for part in node.sent)):
                return True
    return False
