"""Values that the next iteration may use in whatever way: wrong where ranks have different ones.

past.py knows the ways in which a value of the rank's part leads to a wrong result. This is about
all others: digests tell at the resize whether the ranks differ, and what may be used is refused.
"""

from __future__ import annotations

from dq_client.check import words as w
from dq_client.check.graph import Node, left_over
from dq_client.check.near import Counts, bits_of, branches_of
from dq_client.check.program import Program
from dq_client.check.roles import asks

OF_PROCESS = frozenset((w.RNG, w.FILE, w.SHOW, w.POOL))


def begins_otherwise(
    changes: list[Node], heads: list[Node], program: Program, counts: Counts
) -> bool:
    """Whether a rank that joins cannot begin with the set-up's value of what each rank adds up.

    It can with a sum or an extreme (recurrence.py), and with what is used after the loop alone.
    """
    made = [change for change in changes if change.call is None]
    if any(change.kind in OF_PROCESS for change in changes):
        return False
    sums = made and all(change.assigned and change.added is not None for change in made)
    return not sums and is_live(heads, program, counts, lengths=True)


def is_open(changes: list[Node], heads: list[Node], program: Program, counts: Counts) -> bool:
    """Whether the next iteration may use what this one has left.

    Not what is made anew where the number of ranks is another one, nor a cache, nor what each
    process has for itself, as random numbers.
    """
    made = [change for change in changes if change.call is None]
    if any(change.kind in OF_PROCESS for change in changes):
        return False
    items = [change for change in made if change.which is not None or not change.kept]
    if items and all(change.kept and asks(change) for change in items):
        return False
    if _is_received_last(heads):
        return False
    conditions = {part: None for change in made for part in branches_of(change, counts)}
    by_size = any(bits_of([part]) == w.SIZE for part in conditions)
    return not by_size and is_live(heads, program, counts)


def _is_received_last(heads: list[Node]) -> bool:
    """Whether a collective call fills it last in each iteration, the same on all ranks."""
    left = [v for head in heads if head.varies for v in head.passed[1:]]
    return bool(left) and all(any(n.shared for n in (v, *v.computed)) for v in left)


def is_live(heads: list[Node], program: Program, counts: Counts, *, lengths: bool = False) -> bool:
    """Whether a value that is there when an iteration begins leads to something in it.

    Not by its length alone, unless lengths count. Nor in what a change of a range, or of an item of
    the rank's own, has left; nor is an item that has been set before.
    """
    whole, sinks = program.whole(), set(program.sinks)
    todo: list[tuple[Node, object, bool]] = [(head, None, False) for head in heads]
    seen = set(todo)
    while todo:
        node, key, taken = todo.pop()
        for user in whole.users(node):
            if (
                (user.length and not lengths)
                or user.ends_loop
                or (key and user.which and user.which.key == key)
            ):
                continue
            is_read = user.rebound or (user.index is not None and not user.kept)
            now, is_taken = key, taken or (node in user.computed and not is_read)
            if node in user.kept and not is_taken:
                if _is_of_own(user, counts):
                    continue
                now = user.which.key if user.which is not None else None
            if user.ends_for and not taken and _sets_own(node, counts):
                continue
            if user in sinks:
                return True
            if (user, now, is_taken) not in seen:
                seen.add((user, now, is_taken))
                todo.append((user, now, is_taken))
    return False


def _sets_own(head: Node, counts: Counts) -> bool:
    """Whether a loop inside of the iteration sets the rank's own items, which are read after it."""
    changes = [c for c in left_over(head.passed[1:]) if c.kept] if head.varies else []
    return bool(changes) and all(_is_of_own(change, counts) for change in changes)


def _is_of_own(change: Node, counts: Counts) -> bool:
    """Whether it changes a range, or an item that the rank's number selects."""
    if change.which is None or change.which.is_range or change.sliced:
        return not change.reorders
    where = [*(change.index or ()), *branches_of(change, counts)]
    return bool(bits_of(where, of=w.RANK) & w.RANK)
