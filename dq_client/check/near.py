"""What values and conditions are computed from, as far as a short walk through the graph shows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterable, Iterator
from typing import TypeAlias

from dq_client.check import words as w
from dq_client.check.graph import CONTROL, STATES_MAX, Call, Node, Stack, edges, made_of

PLACES = w.RANK | w.SIZE
Counts: TypeAlias = Callable[[Call], bool]  # whether a function may be entered by a call


def near_of(starts: Iterable[Node], without: Container[Node] = ()) -> Iterator[Node]:
    """What these are made of, conditions aside, as far as a short walk shows."""
    return itertools.islice(made_of(starts, without), STATES_MAX)


def bits_of(
    starts: Iterable[Node], without: Container[Node] = (), of: int = PLACES | w.PART
) -> int:
    """The bits of that. of: those that are looked for; others may be missing."""
    seen: set[tuple[Node, Stack]] = {(start, ()) for start in starts}
    todo, found = list(seen), 0
    while todo and len(seen) < STATES_MAX:
        node, stack = todo.pop()
        found |= node.source
        for each, inside, how in edges(node, stack):
            is_new = how != CONTROL and each.most & of & ~found and (each, inside) not in seen
            if is_new and each not in without:
                seen.add((each, inside))
                todo.append((each, inside))
    return found


def is_reset(heads: Iterable[Node]) -> bool:
    """Whether each iteration ends with the variable set to a constant, as by `acc = 0`."""
    ends = [end for head in heads if head.varies for end in head.passed[1:]]
    return bool(ends) and all(map(_is_constant, ends))


def _is_constant(node: Node) -> bool:
    made = [*node.computed, *node.passed, *node.kept, *(node.index or ())]
    others = (node.source, node.opaque, node.received, node.shared, node.call, node.root)
    return node.rebound and node.kind in ("", w.PLAIN) and not made and not any(others)


def is_on_root(change: Node) -> bool:
    """Whether it comes about on rank 0 alone."""
    return is_always(change, _is_of_root)


def _is_of_root(condition: Node) -> bool:
    return condition.on_root is not None and place_of(condition.on_root) == (w.RANK, False)


def is_always(change: Node, holds: Callable[[Node], bool]) -> bool:
    """Whether every way to it leads by such a condition."""
    todo: list[Node | None] = [change.control]
    seen: set[Node] = set()
    while todo:
        node = todo.pop()
        if node is None:
            return False
        if node in seen or holds(node):
            continue
        seen.add(node)
        if node.root is None:
            todo.append(node.control)
            continue
        body, slot = node.root
        todo += [call.entry.get(slot) for call in body.calls] or [None]
    return True


def selects(condition: Node) -> bool:
    """Whether a condition depends on the rank."""
    return bool(bits_of(condition.branches) & w.RANK)


def branches_of(change: Node, counts: Counts) -> Iterator[Node]:
    """The conditions of a change, of its function and of the calls of that, if these count."""
    todo: list[Node | None] = [change.control]
    seen: set[Node] = set()
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        yield from node.branches
        todo.append(node.control)
        if node.root is not None:
            body, slot = node.root
            calls = [call for call in body.calls if counts(call)] or body.calls
            todo += [call.entry[slot] for call in calls if slot in call.entry]


def place_of(part: Node) -> tuple[int, bool]:
    """What a condition comes from, and whether it may be another one in each iteration."""
    seen: set[tuple[Node, Stack]] = {(part, ())}
    todo, bits = list(seen), 0
    while todo:
        node, stack = todo.pop()
        bits |= node.source
        if node.varies or node.opaque or bits & ~(PLACES | w.FROZEN) or len(seen) > STATES_MAX:
            return bits, True
        for each, inside, _ in edges(node, stack):
            if (each, inside) not in seen:
                seen.add((each, inside))
                todo.append((each, inside))
    return bits, False
