"""Variables that keep what an iteration has made of the rank's part, until a resize moves the part.

The part is another one after a resize. What the ranks have made of theirs is wrong then, if the
next iteration uses it: items of a rank's own, as well as a value computed from its part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dq_client.check import words as w
from dq_client.check.graph import STATES_MAX, Node, Whole, left_over, made_of
from dq_client.check.near import (
    PLACES,
    Counts,
    bits_of,
    branches_of,
    is_always,
    is_on_root,
    near_of,
    place_of,
    selects,
)
from dq_client.check.program import Program
from dq_client.check.roles import asks, is_cache, is_number, is_of_own, is_one_item, is_own_item


def of_last_part(
    changes: list[Node],
    heads: list[Node],
    program: Program,
    matter: set[Node],
    counts: Counts,
    sources: Callable[[Iterable[Node]], int],
    *,
    accumulates: bool,
) -> bool:
    """Whether the next iteration uses what the rank has made of its part.

    changes, heads, matter, counts, accumulates: as in `role_of`. sources: what changes come from
    """
    fresh = [c for c in changes if not accumulates or not (c.kept or _has_any(c, heads))]
    if fresh and _is_past(fresh, heads, program, counts, sources(fresh)):
        return True
    if accumulates:
        return is_owned(changes, heads, program, counts)
    return _is_replaced(changes, heads, program, matter, counts)


def _is_past(
    changes: list[Node], heads: list[Node], program: Program, counts: Counts, made_of: int
) -> bool:
    """Whether what an iteration makes of the rank's part of the data is used in the next one.

    The part is another one after a resize, be it of declared data or one that the program computes
    from its rank and size. So is the rank's place in what all ranks have given. Items that change
    one by one are caches, and times belong to no part. made_of: what the changes come from
    """
    whole = program.whole()
    if _is_gathered(changes):
        own = [base for base, index in program.indexed if _is_neighbour(index, whole)]
        if any(set(heads) & _passed(base) for base in own):
            return True
    by_hand = bool(made_of & (w.SIZE | w.FROZEN)) and _is_divided(changes, heads, whole, counts)
    of_data = bool(made_of & w.PART)
    if not (of_data or by_hand) or made_of & w.CLOCK:
        return False
    if of_data and _is_left(changes, heads, program, counts):
        return True
    for change in changes:
        is_part = of_data and _is_range_of_part(change)
        is_kept = is_one_item(change) and (by_hand or _has_text_key(change))
        if change.kept and not (is_part or is_kept or _is_by_place(change)):
            return False  # a cache
    if any(_is_shifted(change, changes, heads) for change in changes):
        return True
    # `n = n or size` leaves the old value where there is one.
    made = {c for c in changes if c.kept or left_over([c]).isdisjoint(heads)}
    return _is_used(heads, program, made, in_loop=True)


def _is_used(
    heads: list[Node], program: Program, replaced: Iterable[Node] = (), *, in_loop: bool = False
) -> bool:
    """Whether anything but a variable of the program is made of these, conditions aside.

    replaced: versions without what was there before. in_loop: not by statements after the loop
    """
    whole, sinks = program.whole(), set(program.sinks)
    todo, seen = list(heads), {*heads, *replaced}
    while todo:
        node = todo.pop()
        for user in whole.users(node):
            after = in_loop and user.ends_loop
            if user not in seen and not after and user.control is not node:
                if user in sinks:
                    return True
                seen.add(user)
                todo.append(user)
    return False


def _is_left(changes: list[Node], heads: list[Node], program: Program, counts: Counts) -> bool:
    """Whether one iteration makes it of the part, others leave it, and it is used after the loop.

    As `if step == 0: first = x.local.sum()`.
    """
    stays = any(head in left_over(head.passed[1:]) for head in heads if head.varies)
    own = [c for c in changes if bits_of(c.computed) & w.PART]
    is_left = any(_is_seldom(c, counts) if c.kept else stays for c in own)
    return is_left and _is_used(heads, program)


def _is_seldom(change: Node, counts: Counts) -> bool:
    """Whether it sets the same item in some iterations, on all ranks alike."""
    parts = list(branches_of(change, counts))
    varies = any(place_of(part)[1] for part in parts)
    return is_one_item(change) and varies and not bits_of(parts) & (w.RANK | w.PART)


def _is_replaced(
    changes: list[Node], heads: list[Node], program: Program, matter: set[Node], counts: Counts
) -> bool:
    """Whether a rank uses an item that it selects as it was, and sets it: `last[i] = value`.

    matter: as in `role_of`
    """
    left = left_over(heads)
    for change in left.intersection(changes):
        if change.which is None or change.which.is_range or not _is_by_rank(change, counts):
            continue
        if is_cache(change, program) or left_over([change]).isdisjoint(heads):
            continue
        if asks(change):  # as `if i not in first: first[i] = step`
            return True
        users = {user for version in change.kept for user in program.whole().users(version)}
        reads = users & matter
        if any(r.which and r.which.key == change.which.key for r in reads - {change}):
            return True
    return False


def is_owned(changes: list[Node], heads: list[Node], program: Program, counts: Counts) -> bool:
    """Whether each rank continues with items that are its own, and reads them as such.

    As `x[i] = f(x[i])` for its `i`: after a resize the item is another rank's, which has the value
    of the set-up. Sums that are added up over all ranks later are no such items.
    """
    left = left_over(heads)
    own = [c for c in changes if (_is_by_rank(c, counts) if c in left else is_of_own(c))]
    if not own:
        return False
    whole, sinks, seen = program.whole(), set(program.sinks), set(changes)
    versions, reads, known = [*heads, *own], list[Node](), {*heads, *own}
    of_it = known | seen
    while versions:
        node = versions.pop()
        for user in set(whole.users(node)) - known:
            if user not in seen and user.control is not node and _reads_own(user, of_it):
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


def _has_any(change: Node, heads: list[Node]) -> bool:
    """Whether a change is computed from one of these, conditions aside."""
    return not set(heads).isdisjoint(near_of([change]))


def _is_divided(changes: list[Node], heads: list[Node], whole: Whole, counts: Counts) -> bool:
    """Whether values are made of the rank and the number of ranks, or of that alone.

    Not if a condition compares the number of ranks: that makes them anew after a resize. Nor is it
    the number that each iteration keeps, to notice a resize, nor what is made of the number and of
    what all ranks have given, as a mean is.
    """
    conditions = [part for change in changes for part in branches_of(change, counts)]
    items = {node for part in conditions for node in near_of([part]) if node.varies and node.index}
    if bits_of(conditions, items.union(changes)) & w.SIZE:
        return False
    bits = bits_of(changes)
    seldom = all(any(branches_of(change, counts)) for change in changes)
    if bits & w.FROZEN and seldom:
        return True
    if bits & PLACES == PLACES or not bits & w.SIZE:
        return bits & PLACES == PLACES
    users = (user for head in heads for user in whole.users(head))
    notices = any(part.source & w.SIZE for user in users for part in user.computed)
    near = list(near_of(changes))
    made = not any(node.shared or node.opaque for node in near)
    made = made or any(node.index and bits_of(node.index) & w.SIZE for node in near)
    return made and (seldom or not notices)


def _is_shifted(change: Node, changes: list[Node], heads: list[Node]) -> bool:
    """Whether it keeps what the last iteration has made of the rank: `d["old"] = d["new"]`."""
    if not _has_text_key(change):
        return False
    todo, seen = list(change.kept), set(change.kept)
    while todo:  # what this iteration has done before
        node = todo.pop()
        further = set() if node in heads else {*node.kept, *node.passed} - seen
        seen |= further
        todo += further
    for read in change.computed:
        if read.which is None or set(read.computed).isdisjoint(change.kept):
            continue
        same = [each for each in changes if each.which and each.which.key == read.which.key]
        if change not in same and seen.isdisjoint(same) and bits_of(same) & (w.RANK | w.PART):
            return True
    return False


def _has_text_key(change: Node) -> bool:
    """Whether it changes an item that has a name, as `state["last"]`."""
    keys = change.which.indices if change.which is not None else []
    return [type(getattr(key, "value", None)) for key in keys] == [str] and not change.sliced


def _is_by_place(change: Node) -> bool:
    """Whether an item is made of the rank and the number of ranks, its key aside."""
    if change.which is None or change.which.is_range or change.sliced:
        return False
    index = change.index or []
    others = [node for node in change.computed if node not in index]
    if any(node.sliced or node.shared for node in near_of(others, set(index))):
        return False
    return bits_of(others, set(index)) & PLACES == PLACES


def _is_range_of_part(change: Node) -> bool:
    """Whether it changes a range as long as the part, as `a[:n]`, or the same one each time."""
    if not change.sliced:
        return False
    near = list(near_of(change.index or ()))
    by_part = any(node.source & w.PART for node in near)
    return by_part or not any(node.varies for node in near)


def _is_by_rank(change: Node, counts: Counts) -> bool:
    """Whether it is of items that the rank selects, of its objects, or computed from the rank."""
    if change.received or is_on_root(change):
        return False
    if change.sliced and bits_of(change.index or ()) & w.PART:
        return True
    return is_own_item(change, counts) or is_of_own(change) or bool(bits_of([change]) & w.RANK)


def _reads_own(user: Node, versions: set[Node]) -> bool:
    """Whether an item that is read is one that the rank selects, or is read by such a rank.

    versions: of the container, which are no index of it
    """
    index = [node for node in user.index or () if node not in versions]
    if index and not user.kept and bits_of(index, versions) & (w.RANK | w.PART):
        return True
    place = Node(control=user.under or user.control)
    return is_always(place, selects) and not is_on_root(place)


def _is_gathered(changes: list[Node]) -> bool:
    """Whether a list with an entry of each rank is in what the changes are made of, or may be."""
    return any(node.gathered or number > STATES_MAX for number, node in enumerate(made_of(changes)))


def _is_neighbour(index: Node, whole: Whole) -> bool:
    """Whether an index is this rank, or one beside it; not one of the items that are its part."""
    place = whole.sources([index]) & PLACES
    return place == w.RANK or (bool(place & w.RANK) and is_number([index], whole))


def _passed(base: Node) -> set[Node]:
    """The versions that a value may be, as it is: the nodes of a list are its only parts."""
    todo, seen = list(base.computed), set(base.computed)
    while todo:
        further = set(todo.pop().passed) - seen
        seen |= further
        todo += further
    return seen
