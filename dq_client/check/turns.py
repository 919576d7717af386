"""Lines that give iterations a share of the work which depends on the number of ranks.

With `k = step * size + rank`, or with `if first + step < last` where the rank's part begins at
`first`, a resize repeats some of the work and leaves out some. With `done += n // size` a count
stands for the work of one rank, and the number of ranks changes. All variables have the values that
the program gave them, so these are facts about lines, not about variables.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from dq_client.check import words as w
from dq_client.check.graph import CONTROL, STATES_MAX, Node, edges, lead_back
from dq_client.check.near import near_of

if TYPE_CHECKING:
    from dq_client.check.program import Program

ORDERS = ast.Lt | ast.LtE | ast.Gt | ast.GtE


class TurnKind(Enum):
    """What kind of expression it is."""

    PRODUCT = auto()
    COMPARISON = auto()
    ITERATIONS = auto()  # the argument of rs.iterations
    SUM = auto()  # over the ranks


@dataclass(eq=False, slots=True)
class Turn:
    """An expression that may depend on the iteration and on the number of ranks.

    sides: both operands; of a number of iterations or a sum, its argument
    """

    kind: TurnKind
    line: int
    sides: Sequence[list[Node]]
    result: Node


@dataclass(eq=False, slots=True)
class Quotient:
    """A division, whose dividend and divisor are no constants."""

    line: int
    over: list[Node]
    by: list[Node]
    result: Node

    @property
    def is_by_size(self) -> bool:
        """Whether the divisor depends on the number of ranks."""
        may_be = any(node.most & w.SIZE for node in self.by)
        return may_be and bool(_Side.of(self.by, set()).bits & w.SIZE)


def turn_of(node: ast.BinOp | ast.Compare, sides: Sequence[list[Node]]) -> Turn | None:
    """Return a product or an ordered comparison of two values; None for other operations."""
    if isinstance(node, ast.Compare):
        kind, fits = TurnKind.COMPARISON, isinstance(node.ops[0], ORDERS)
    else:
        kind, fits = TurnKind.PRODUCT, isinstance(node.op, ast.Mult)
        fits = fits and _is_plain(node.left) and _is_plain(node.right)
    if not fits or len(sides) != 2 or not all(sides):
        return None
    return Turn(kind, node.lineno, sides, Node(each for side in sides for each in side))


def turn_lines(program: Program, matter: set[Node]) -> Iterator[tuple[int, bool]]:
    """Yield such lines, and whether they count work: those that select it first.

    matter: nodes whose value leads beyond the program's own variables
    """
    iterations = {o.items for o in program.loops if o.over_iterations and o.items is not None}
    for turn in sorted(program.turns, key=lambda turn: turn.line):
        counts = turn.kind is TurnKind.SUM
        if _is_sum_of_counts(program, turn) if counts else _selects(turn, iterations, matter):
            yield turn.line, counts
    yield from ((line, True) for line in _lines_of_counts(program))


def _selects(turn: Turn, iterations: set[Node], matter: set[Node]) -> bool:
    """Whether the number of ranks and the iteration, or their number, select work."""
    sides = [_Side.of(side, iterations) for side in turn.sides]
    if any(side.shared for side in sides):
        return False
    if turn.kind is TurnKind.ITERATIONS:
        return bool(sides[0].bits & w.SIZE)
    one, other = sides
    if turn.result not in matter or one.by_turn == other.by_turn or one.by_loop or other.by_loop:
        return False
    ranks = other if one.by_turn else one
    return ranks.bits == w.SIZE if turn.kind is TurnKind.PRODUCT else bool(ranks.bits & w.SIZE)


def _lines_of_counts(program: Program) -> Iterator[int]:
    """Lines as `done += n // size`; a mean of what ranks have computed together is no count."""
    quotients = [each for each in program.quotients if each.is_by_size]
    for head in _heads(program) if quotients else ():
        near = set(near_of([head]))
        found = [each.line for each in quotients if each.result in near]
        of_others = any(n.shared or n.opaque or n.source & ~w.SIZE for n in near)
        if found and not of_others and lead_back([head], {head}, program.whole()):
            yield min(found)


def _is_sum_of_counts(program: Program, turn: Turn) -> bool:
    """Whether a sum over the ranks is of a count that is the same on all of them.

    Not if it is divided by the number of ranks.
    """
    for quotient in program.quotients:
        if quotient.is_by_size and turn.result in set(near_of(quotient.over)):
            return False
    near = set(turn.sides[0])
    todo = list(near)
    while todo and len(near) < STATES_MAX:
        node = todo.pop()
        if node.source or node.opaque or node.shared or node.index is not None:
            return False
        further = {each for each, _, _ in edges(node, ())} - near
        near |= further
        todo += further
    return not todo and not near.isdisjoint(_heads(program))


def _heads(program: Program) -> Iterator[Node]:
    """The variables that loops over iterations change, at their heads."""
    for loop in program.loops:
        if loop.over_iterations:
            yield from (head for head in loop.heads.values() if head.varies)


@dataclass(slots=True)
class _Side:
    """What an operand is computed from.

    bits     sources, as words.py has them
    by_turn  the number of the iteration
    by_loop  an item of another loop
    shared   a result that ranks have computed together
    """

    bits: int = 0
    by_turn: bool = False
    by_loop: bool = False
    shared: bool = False

    @classmethod
    def of(cls, nodes: list[Node], iterations: set[Node]) -> _Side:
        """Follow the operand back; of an item of a container its index counts alone."""
        side, todo, seen = cls(), list(nodes), set(nodes)
        while todo and len(seen) < STATES_MAX:
            node = todo.pop()
            side.bits |= node.source
            side.by_turn |= node in iterations
            side.shared |= node.shared
            is_item = node.index is not None and node not in iterations
            side.by_loop |= is_item and node.varies
            if is_item:
                further = list(node.index or ())
            else:
                further = [each for each, _, how in edges(node, ()) if how != CONTROL]
            todo += [each for each in further if each not in seen]
            seen.update(further)
        return side


def _is_plain(node: ast.expr) -> bool:
    """Whether it is a variable, an attribute or a call as `size`, perhaps with a constant added."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        return isinstance(node.right, ast.Constant) and _is_plain(node.left)
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).endswith("Get_size")
    return isinstance(node, ast.Name | ast.Attribute)
