"""Items of a container that are a rank's own, with which it goes on from one iteration to the next.

After a resize other ranks have them. Where each iteration sets all of a rank's items before it
reads them, nothing is lost; where it goes on from what they were, or sets some of them, it is.
"""

from __future__ import annotations

from collections.abc import Iterable

from dq_client.check import words as w
from dq_client.check.graph import Node, left_over
from dq_client.check.near import (
    Counts,
    bits_of,
    branches_of,
    is_always,
    is_on_root,
    near_of,
    selects,
)
from dq_client.check.program import Program
from dq_client.check.roles import is_cache, is_of_own, is_own_item, varying_of


def is_continued(
    changes: list[Node], heads: list[Node], program: Program, counts: Counts, *, accumulates: bool
) -> bool:
    """Whether each rank goes on with items of its own.

    changes, heads, counts, accumulates: as in `role_of`
    """
    if accumulates:
        return _is_owned(changes, heads, program, counts)
    return _is_partly_owned(changes, heads, program, counts)


def _is_owned(
    changes: list[Node],
    heads: list[Node],
    program: Program,
    counts: Counts,
    *,
    sparse: bool = False,
) -> bool:
    """Whether each rank continues with items that are its own, and reads them as such.

    As `x[i] = f(x[i])` for its `i`: after a resize the item is another rank's, which has the value
    of the set-up. Sums that are added up over all ranks later are no such items.
    sparse: the changes are only of some of its items, and what is read under the same condition is
    of these
    """
    left = left_over(heads)
    own = [c for c in changes if (is_by_rank(c, counts) if c in left else is_of_own(c, counts))]
    if not own:
        return False
    whole, sinks, seen = program.whole(), set(program.sinks), set(changes)
    versions, reads, known = [*heads, *own], list[Node](), {*heads, *own}
    of_it = known | seen
    while versions:
        node = versions.pop()
        for user in set(whole.users(node)) - known:
            if user not in seen and user.control is not node and reads_own(user, of_it):
                if not (sparse and all(_is_of_same(user, each, program) for each in own)):
                    reads.append(user)
            elif node in user.passed or node in user.kept or user.root or user.out:
                known.add(user)
                of_it.add(user)
                versions.append(user)
    while reads:
        for user in whole.users(reads.pop()):
            if user in sinks:
                return True
            if user not in seen:
                seen.add(user)
                reads.append(user)
    return False


def _is_partly_owned(
    changes: list[Node], heads: list[Node], program: Program, counts: Counts
) -> bool:
    """Whether each rank sets some items of its own, and reads others of these, too.

    As `if meets(i, step): done[i] = True` for its `i`. They are set where a condition holds that is
    another one in each iteration, or are items that a comparison or an index selects which is
    another one: `x[i, step % 4]`. Not if another change sets all of its items.
    """
    left = left_over(heads)
    inner = {c.scope for c in changes if c.call is None}
    seen = [c for c in changes if c.call is None or c.call.body.scope not in inner]
    own = [c for c in seen if (is_by_rank(c, counts) if c in left else is_of_own(c, counts))]
    varying = varying_of(program)
    for change in own:
        sets_all = bool(change.kept) and left_over([change]).isdisjoint(heads)
        is_some = bool(_selections(change, varying) or _moving(change, varying)) or _is_sometimes(
            change, own, heads, counts, varying
        )
        is_kept = is_cache(change, program) and not _is_state(change, own)
        if sets_all or not is_some or is_kept:
            return False
    return bool(own) and _is_owned(own, heads, program, counts, sparse=True)


def _is_sometimes(
    change: Node, others: list[Node], heads: list[Node], counts: Counts, varying: set[Node]
) -> bool:
    """Whether it is made where a condition holds, and no other branch sets the same item.

    A condition that looks at what is changed counts only where several changes lead from one
    state to the next: `if cell.value is None: cell.value = f(cell)` keeps what it computes once.
    """
    if _is_covered(change, others):
        return False
    asked = [part for part in branches_of(change, counts) if _looks_at(part, heads)]
    parts = (part for part in branches_of(change, counts) if part not in asked)
    return bool(asked and _is_state(change, others)) or any(_varies(p, varying) for p in parts)


def _is_covered(change: Node, others: Iterable[Node]) -> bool:
    """Whether the same item is set in the other branch, too, and in those of that."""
    if change.which is None:
        return False
    key, control = change.which.key, _condition(change)
    same = [o for o in others if o is not change and o.which and o.which.key == key]
    if any(_condition(other) is control for other in same):
        return True
    return any(control in _around(other) and _is_covered(other, same) for other in same)


def _condition(change: Node) -> Node | None:
    """The condition of a change; of `x == 0` that of the other branch, above it."""
    control = change.control
    return control.control if control is not None and control.on_root is not None else control


def _is_state(change: Node, others: list[Node]) -> bool:
    """Whether several changes lead from one state to the next, each set as a constant."""
    index = set(change.index or ())
    return len(others) > 1 and index.issuperset([*change.computed, *change.passed])


def _looks_at(part: Node, heads: Iterable[Node]) -> bool:
    """Whether a condition looks at a variable itself, and not at what is another item by it."""
    todo, seen = [part], {part}
    while todo:
        node = todo.pop()
        further = {*node.computed, *node.passed, *node.kept}.difference(node.index or (), seen)
        seen |= further
        todo += further
    return not seen.isdisjoint(heads)


def _selections(item: Node, varying: set[Node]) -> set[Node]:
    """The comparisons, others in each iteration, that select the items which are read or set."""
    return {n for n in near_of(item.index or ()) if n.truth and _varies(n, varying)}


def _moving(item: Node, varying: set[Node]) -> set[object]:
    """The indices, the same on all ranks, that are others in each iteration."""
    return {
        (text, versions)
        for text, versions in (item.which.parts if item.which is not None else ())
        if not bits_of(versions) & (w.RANK | w.PART) and not varying.isdisjoint(near_of(versions))
    }


def _varies(part: Node, varying: set[Node]) -> bool:
    near = list(near_of([part]))
    return not varying.isdisjoint(near) or any(n.source & w.PART or n.shared for n in near)


def _is_of_same(read: Node, change: Node, program: Program) -> bool:
    """Whether what is read are only items that this change of some of them has set."""
    varying = varying_of(program)
    if moving := _moving(change, varying):
        if read.which is None:
            return not varying.isdisjoint(near_of(read.index or ()))
        return moving <= set(read.which.parts)
    selected = {node for node in near_of(change.index or ()) if node.truth}
    if selected:
        return selected <= {node for node in near_of(read.index or ()) if node.truth}
    return change.control in _around(read)


def _around(node: Node) -> list[Node]:
    """The conditions around a place, the innermost first."""
    found: list[Node] = []
    condition = node.under or node.control
    while condition is not None and condition not in found:
        found.append(condition)
        condition = condition.control
    return found


def is_by_rank(change: Node, counts: Counts) -> bool:
    """Whether it is of items that the rank selects, of its objects, or computed from the rank."""
    if change.received or is_on_root(change):
        return False
    if change.sliced and bits_of(change.index or ()) & w.PART:
        return True
    return (
        is_own_item(change, counts)
        or is_of_own(change, counts)
        or bool(bits_of([change], of=w.RANK) & w.RANK)
    )


def reads_own(user: Node, versions: set[Node]) -> bool:
    """Whether an item that is read is one that the rank selects, or is read by such a rank.

    versions: of the container, which are no index of it
    """
    index = [node for node in user.index or () if node not in versions]
    if index and not user.kept and bits_of(index, versions) & (w.RANK | w.PART):
        return True
    place = Node(control=user.under or user.control)
    return is_always(place, selects) and not is_on_root(place)
