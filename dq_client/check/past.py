"""Variables that keep what an iteration has made of the rank's part, until a resize moves the part.

The part is another one after a resize. What the ranks have made of theirs is wrong then, if the
next iteration uses it: items of a rank's own, as well as a value computed from its part.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

from dq_client.check import words as w
from dq_client.check.graph import STATES_MAX, Item, Node, Whole, first, left_over, made_of
from dq_client.check.near import (
    PLACES,
    Counts,
    bits_of,
    branches_of,
    near_of,
    place_of,
)
from dq_client.check.owned import is_by_rank, is_continued, reads_own
from dq_client.check.program import Program
from dq_client.check.roles import (
    asks,
    is_cache,
    is_number,
    is_one_item,
)


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
    if _decides_over_data(heads, program, counts) and sources(changes) & w.PART:
        return True
    fresh = changes
    if accumulates:  # what it adds up aside
        places = program.whole().sources(changes) & (PLACES | w.PART | w.FROZEN)
        may_be = places or _is_gathered(changes)
        fresh = [c for c in changes if may_be and not (c.kept or _has_any(c, heads))]
    if fresh and _is_past(fresh, heads, program, counts, sources(fresh)):
        return True
    if not accumulates and _is_replaced(changes, heads, program, matter, counts):
        return True
    return is_continued(changes, heads, program, counts, accumulates=accumulates)


def _decides_over_data(heads: list[Node], program: Program, counts: Counts) -> bool:
    """Whether what the last iteration has left is a condition of changes of declared data."""
    left = {head for head in heads if head.varies}
    if not left:
        return False
    parts = {part: None for each in program.data_changes for part in branches_of(each, counts)}
    return not left.isdisjoint(near_of(parts))


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
    by_hand = bool(made_of & (w.SIZE | w.FROZEN)) and is_divided(changes, heads, whole, counts)
    of_data = bool(made_of & w.PART)
    if not (of_data or by_hand) or made_of & w.CLOCK:
        return False
    if of_data and _is_left(changes, heads, program, counts):
        return True
    if of_data and any(_is_read_early(change, heads, program) for change in changes):
        return True
    if of_data and any(_is_moved_on(change, heads) for change in changes):
        return _is_used(heads, program, in_loop=True)
    for change in changes:
        is_part = of_data and _is_range_of_part(change)
        is_kept = is_one_item(change) and (by_hand or _has_text_key(change, program))
        is_once = of_data and _is_once_of_part(change, program)
        if change.kept and not (is_part or is_kept or is_once or _is_by_place(change)):
            return False  # a cache
    if any(_is_shifted(change, changes, heads, program) for change in changes):
        return True
    # `n = n or size` leaves the old value where there is one.
    made = {c for c in changes if c.kept or left_over([c]).isdisjoint(heads)}
    return _is_used(heads, program, made, in_loop=True)


def _is_used(
    heads: list[Node], program: Program, replaced: Iterable[Node] = (), *, in_loop: bool = False
) -> bool:
    """Whether anything but a variable of the program is made of these, conditions aside.

    replaced: versions without what was there before. in_loop: not as it is by statements after the
    loop; what iterations have computed of it may be
    """
    whole, sinks = program.whole(), set(program.sinks)
    todo = [(head, False) for head in heads]
    seen, others = set(todo), {*heads, *replaced}
    while todo:
        node, computed = todo.pop()
        for user in whole.users(node):
            after = in_loop and user.ends_loop and not computed
            state = user, computed or node in user.computed
            if user not in others and state not in seen and not after and user.control is not node:
                if user in sinks:
                    return True
                seen.add(state)
                todo.append(state)
    return False


def _is_left(changes: list[Node], heads: list[Node], program: Program, counts: Counts) -> bool:
    """Whether one iteration makes it of the part, others leave it, and it is used after the loop.

    As `if step == 0: first = x.local.sum()`.
    """
    stays = any(head in left_over(head.passed[1:]) for head in heads if head.varies)
    own = [c for c in changes if c.call is None and bits_of([c], set(c.kept)) & w.PART]
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
    early = _early_reads(heads, program).intersection(matter).difference(changes)
    for change in left.intersection(changes):
        if change.which is None or change.which.is_range or not is_by_rank(change, counts):
            continue
        if is_cache(change, program) or left_over([change]).isdisjoint(heads):
            continue
        if asks(change):  # as `if i not in first: first[i] = step`
            return True
        users = {user for version in change.kept for user in program.whole().users(version)}
        reads = users.intersection(matter).difference(changes)
        if any(r.which and r.which.key == change.which.key for r in reads):
            return True
        if any(reads_own(r, set(heads)) and not _is_apart(r, change.which) for r in early):
            return True
    return False


def _early_reads(heads: list[Node], program: Program) -> set[Node]:
    """What reads a variable in an iteration that has not changed it yet."""
    todo = [head for head in heads if head.varies]
    seen, found = set(todo), set[Node]()
    while todo:
        for user in program.whole().users(todo.pop()):
            if user.index is not None and not user.kept:
                found.add(user)
            elif user not in seen and not user.ends_loop and first(user) in heads:
                seen.add(user)
                todo.append(user)
    return found


def _is_read_early(change: Node, heads: list[Node], program: Program) -> bool:
    """Whether an iteration uses an item of the part that the last one has set, as `last[0]`."""
    if not (change.kept and change.which and is_one_item(change)):
        return False
    key, reads = change.which.key, _early_reads(heads, program)
    same = [read for read in reads if read.which is not None and read.which.key == key]
    of_part = bits_of([change], set(change.kept)) & w.PART
    return bool(of_part) and _is_used(same, program, in_loop=True)


def _is_apart(read: Node, item: Item) -> bool:
    """Whether what is read is surely another item, as `x[i, 0]` where `x[i, 1]` is set."""
    pairs = zip(read.which.parts, item.parts, strict=False) if read.which else ()
    return any(a != b and a[0][:9] == b[0][:9] == "Constant(" for a, b in pairs)


def _has_any(change: Node, heads: list[Node]) -> bool:
    """Whether a change is computed from one of these, conditions aside."""
    return not set(heads).isdisjoint(near_of([change]))


def is_divided(changes: list[Node], heads: list[Node], whole: Whole, counts: Counts) -> bool:
    """Whether values are made of the rank and the number of ranks, or of that alone.

    Not if a condition compares the number of ranks: that makes them anew after a resize. Nor is it
    the number that each iteration keeps, to notice a resize, nor what is made of the number and of
    what all ranks have given, as a mean is.
    """
    conditions = {part: None for change in changes for part in branches_of(change, counts)}
    items = {node for part in conditions for node in near_of([part]) if node.varies and node.index}
    if bits_of(conditions, items.union(changes)) & w.SIZE:
        return False
    bits = bits_of(changes, of=PLACES | w.FROZEN)
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


def _is_shifted(change: Node, changes: list[Node], heads: list[Node], program: Program) -> bool:
    """Whether it keeps what the last iteration has made of the rank: `d["old"] = d["new"]`."""
    if not _has_text_key(change, program):
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


def _is_moved_on(change: Node, heads: list[Node]) -> bool:
    """Whether it sets one item after the others were moved, as `h = np.roll(h, 1)` does."""
    if not (change.kept and is_one_item(change)) or not left_over(change.kept).isdisjoint(heads):
        return False
    return not set(near_of(change.kept)).isdisjoint(heads)


def _has_text_key(change: Node, program: Program) -> bool:
    """Whether it changes an item that has a name, as `state["last"]`.

    So it has in a function that is always given a text: `state[key]` after `keep("last", x)`.
    """
    keys = change.which.indices if change.which is not None else []
    if len(keys) != 1 or change.sliced:
        return False
    (key,) = keys
    body = program.bodies.get(change.scope)
    if isinstance(key, ast.Name) and body is not None and body.calls:
        return all(key.id in call.texts for call in body.calls)
    return isinstance(key, ast.Constant) and isinstance(key.value, str)


def _is_once_of_part(change: Node, program: Program) -> bool:
    """Whether an item that is no item of the part is set once to what is made of the part."""
    key = change.index or ()
    if not asks(change) or is_cache(change, program) or bits_of(key) & (w.PART | w.RANK):
        return False
    return bool(bits_of([change], {*change.kept, *key}) & w.PART)


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
