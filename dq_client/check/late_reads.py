"""Ranges of arrays that one iteration sets and a later one reads."""

from __future__ import annotations

from dq_client.check import words as w
from dq_client.check.graph import STATES_MAX, Node, Whole, left_over
from dq_client.check.near import bits_of
from dq_client.check.program import Program


def is_read_late(changes: list[Node], heads: list[Node], program: Program) -> bool:
    """Whether a range of the rank's is read in a later iteration than it is set in.

    As `a[old + lo : old + hi]`, where each iteration sets `a[now + lo : now + hi]`: after a resize
    the range is another rank's, in part. Not where the iteration has set the same range before,
    nor what a function, or an item of it, may have set.
    """
    left, whole = left_over(heads), program.whole()
    if not any(c in left and c.kept and _is_range(c) and _is_ranks(c) for c in changes):
        return False
    todo: list[tuple[Node, frozenset[object]]] = [(head, frozenset()) for head in heads]
    seen = set(todo)
    while todo and len(seen) < STATES_MAX:
        node, known = todo.pop()
        for user in whole.users(node):
            further, which = known, user.which
            if node in user.kept:
                if which is None or not which.is_range:
                    continue
                further = known | {which.key}
            elif node not in user.passed or user.ends_loop:
                late = which is not None and which.key not in known and user.control is not node
                if late and _is_ranks(user) and _is_read(user, whole):
                    return True
                continue
            if (user, further) not in seen:
                seen.add((user, further))
                todo.append((user, further))
    return False


def _is_range(item: Node) -> bool:
    return item.which is not None and item.which.is_range


def _is_ranks(item: Node) -> bool:
    """Whether an item that is read or set is one that the rank selects, or its part's."""
    names = item.which.versions if item.which is not None else ()
    return bool(bits_of([*(item.index or ()), *names]) & (w.RANK | w.PART))


def _is_read(item: Node, whole: Whole) -> bool:
    """Whether something is computed from an item: to name a view of an array reads nothing."""
    users = whole.users(item)
    return not _is_range(item) or any(item in u.computed and not u.rebound for u in users)
