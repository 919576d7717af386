"""Work that the number of an iteration and the number of ranks select together.

With `k = step * size + rank`, or `if first + step < last` where the rank's part begins at `first`,
the iterations share the work among so many ranks. After a resize some of it is done twice, and some
never. No variable has a wrong value then, so this is a fact about a line.
"""

from __future__ import annotations

import ast
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dq_client.check import words as w
from dq_client.check.graph import CONTROL, STATES_MAX, Node, edges, lead_back, made_of

if TYPE_CHECKING:
    from dq_client.check.program import Program

ORDERS = ast.Lt | ast.LtE | ast.Gt | ast.GtE


@dataclass(eq=False, slots=True)
class Turn:
    """An expression in which both may meet.

    sides: what is multiplied, or compared; one side, of a number of iterations, or of what is added
    up over the ranks
    """

    line: int
    sides: tuple[list[Node], ...]
    result: Node
    what: str  # "product", "comparison", "iterations", "sum"


@dataclass(eq=False, slots=True)
class Quotient:
    """What is divided, and by what."""

    line: int
    over: list[Node]
    by: list[Node]
    result: Node


def turn_of(node: ast.expr, sides: tuple[list[Node], ...]) -> Turn | None:
    """One to be looked at once the program is complete; None for other expressions."""
    if isinstance(node, ast.BinOp):
        fits = isinstance(node.op, ast.Mult) and _is_plain(node.left) and _is_plain(node.right)
    else:
        fits = isinstance(node, ast.Compare) and len(sides) == 2
        fits = fits and isinstance(node, ast.Compare) and isinstance(node.ops[0], ORDERS)
    nodes = [each for side in sides for each in side]
    if not fits or not all(sides):
        return None
    what = "product" if isinstance(node, ast.BinOp) else "comparison"
    return Turn(node.lineno, sides, Node(nodes), what)


def turn_line(program: Program, matter: set[Node]) -> tuple[int, bool]:
    """The line of the first one that matters, and whether it is a sum; 0: there is none."""
    iterations = {o.items for o in program.loops if o.over_iterations and o.items is not None}
    for turn in sorted(program.turns, key=lambda turn: turn.line):
        found = [_Side.of(side, iterations) for side in turn.sides]
        if turn.what == "iterations":
            is_shared = bool(found[0].bits & w.SIZE) and not found[0].shared
        elif turn.what == "sum":
            is_shared = _counts(program, turn)
        else:
            is_shared = turn.result in matter and _meet(turn, *found)
        if is_shared:
            return turn.line, turn.what == "sum"
    line = next((each.line for each in program.quotients if _is_counted(program, each)), 0)
    return line, bool(line)


def _is_counted(program: Program, quotient: Quotient) -> bool:
    """Whether iterations add up what one of so many ranks does, as `done += n // size`.

    Not a mean of what ranks have computed together.
    """
    if not _Side.of(quotient.by, set()).bits & w.SIZE:
        return False
    for loop in program.loops:
        for head in loop.heads.values() if loop.over_iterations else ():
            near = set(itertools.islice(made_of([head]), STATES_MAX))
            if head.varies and quotient.result in near and _is_of_size(near):
                return lead_back([head], {head}, program.whole())
    return False


def _is_of_size(near: set[Node]) -> bool:
    return not any(node.shared or node.opaque or node.source & ~w.SIZE for node in near)


def _counts(program: Program, turn: Turn) -> bool:
    """Whether a sum over the ranks is of what iterations have counted alike on all of them.

    Not if it is divided by the number of ranks.
    """
    for quotient in program.quotients:
        near = set(itertools.islice(made_of(quotient.over), STATES_MAX))
        if turn.result in near and _Side.of(quotient.by, set()).bits & w.SIZE:
            return False
    heads = {h for o in program.loops if o.over_iterations for h in o.heads.values() if h.varies}
    near = set(turn.sides[0])
    todo = list(near)
    while todo and len(near) < STATES_MAX:
        node = todo.pop()
        if node.source or node.opaque or node.shared or node.index is not None:
            return False
        further = {each for each, _, _ in edges(node, ())} - near
        near |= further
        todo += further
    return not todo and not heads.isdisjoint(near)


@dataclass(slots=True)
class _Side:
    """What one comes from: `by_turn`: the number of the iteration; `by_loop`: items of others."""

    bits: int = 0
    by_turn: bool = False
    by_loop: bool = False
    shared: bool = False  # of what ranks have computed together

    @classmethod
    def of(cls, nodes: list[Node], iterations: set[Node]) -> _Side:
        """Of an item of a container, its index counts, and not what the container is made of."""
        side, todo, seen = cls(), list(nodes), set(nodes)
        while todo and len(seen) < STATES_MAX:
            node = todo.pop()
            side.bits |= node.source
            side.by_turn |= node in iterations
            side.shared |= node.shared
            side.by_loop |= node.varies and node.index is not None and node not in iterations
            if node.index is not None and node not in iterations:
                further = list(node.index)
            else:
                further = [each for each, _, how in edges(node, ()) if how != CONTROL]
            todo += [each for each in further if each not in seen]
            seen.update(further)
        return side


def _meet(turn: Turn, one: _Side, other: _Side) -> bool:
    """Whether one is of the iteration, and the other of the number of ranks alone."""
    if one.by_turn == other.by_turn or one.by_loop or other.by_loop or one.shared or other.shared:
        return False
    ranks = other if one.by_turn else one
    return ranks.bits == w.SIZE if turn.what == "product" else bool(ranks.bits & w.SIZE)


def _is_plain(node: ast.expr) -> bool:
    """Whether it is a variable, an attribute or a call as `size`, perhaps with a constant added."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        return isinstance(node.right, ast.Constant) and _is_plain(node.left)
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).endswith("Get_size")
    return isinstance(node, ast.Name | ast.Attribute)
