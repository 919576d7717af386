"""Variables that some ranks change and others do not, by where they stand among the ranks.

A halo has neighbours on two sides, but for the first rank and the last; a total may be kept by the
last rank alone. A resize gives ranks other places: one that had a neighbour has none, and keeps
what that has sent. Whether this is wrong depends on how the loop treats the variable.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto

from dq_client.check import words as w
from dq_client.check.graph import (
    Node,
    Whole,
    compared,
    lead_back,
    left_over,
)
from dq_client.check.near import (
    Counts,
    bits_of,
    branches_of,
    is_on_root,
    near_of,
    place_of,
)
from dq_client.check.program import Program


class Role(Enum):
    """How the loop changes a variable, by the rank's place among the others."""

    NONE = auto()  # it has nothing to do with that, as far as the source shows
    AGAIN = auto()  # in each iteration on the same ranks, before it is used
    STALE = auto()  # received from another rank, and used before that sends again
    ELECTED = auto()  # now and then, by a rank that the number of ranks selects
    ROOT = auto()  # by rank 0 alone
    PAST = auto()  # made of the ranks' parts of the data, and used in the next iteration
    OWN_ITEMS = auto()  # each rank sets items of its own, and the whole is used later
    LATCHED = auto()  # each rank sets it where its part of the data has something, and it stays
    OPEN = auto()  # the next iteration may use it: wrong if ranks have different values
    NUMBER = auto()  # `… % size`: the number of a rank, which may have left when it is used


OWN = frozenset((Role.OWN_ITEMS, Role.LATCHED))  # what each rank has collected


def role_of(
    changes: list[Node],
    heads: list[Node],
    whole: Whole,
    matter: set[Node],
    counts: Counts,
    *,
    accumulates: bool,
) -> Role:
    """Tell what a variable is.

    changes: its versions in the loop. heads: those at the loop's head, or where functions begin
    matter: nodes that lead beyond the program's own variables. counts: calls that lead to the loop
    or are in it
    """
    made = [node for each in changes for node in _made(each)]
    received = any(_is_received(each) for each in made)
    parts = {part: None for each in made for part in branches_of(each, counts)}
    judged = [place_of(part) for part in parts]
    by_place = [bits for bits, varies in judged if bits & w.RANK and not varies]
    elects = any(bits & w.SIZE for bits in by_place)
    if accumulates:
        return Role.ELECTED if elects and not received else Role.NONE
    if not received and not by_place:
        return Role.NONE
    if received and not heads:
        return Role.STALE  # who reads it, and when, is not to be seen
    seldom = any(varies for _, varies in judged)
    seldom = seldom or any(_is_partial(each) for each in made)
    if seldom or _is_read_first(heads, set(changes), whole, matter):
        return Role.STALE if received else Role.ELECTED if elects else Role.NONE
    return Role.AGAIN if received or elects else Role.NONE


def own_items(changes: list[Node], heads: list[Node], program: Program, counts: Counts) -> Role:
    """OWN_ITEMS if each rank sets items that are its own, and the whole is used later.

    Such as `results[step] = f(step)` on one rank, added up after the loop. Not if all ranks have
    got the whole when an iteration ends, nor if a rank only reads the items that are its own. PAST
    if they are the same items in each iteration: after a resize two ranks have them. LATCHED, or
    NONE, of what is no such item.
    """
    left = left_over(heads)
    kept = [each for each in changes if each.kept and each in left]
    own = [each for each in kept if is_own_item(each, counts) and not is_cache(each, program)]
    if not own or not _is_used_as_whole(heads, program):
        return Role.LATCHED if _is_latched(changes, heads, counts) else Role.NONE
    varying = varying_of(program)
    parts = [part for each in own for part in (*(each.index or ()), *branches_of(each, counts))]
    is_other = not varying.isdisjoint(near_of(parts))
    return Role.OWN_ITEMS if is_other or not varying else Role.PAST


def is_kept_with_best(changes: list[Node], whole: Whole) -> bool:
    """Whether a change is made where a running minimum or maximum changes."""
    bests = {part for node in changes if node.control for part, _ in compared(node.control, ())}
    heads = {head for best in bests for head in (best, *best.passed) if head.varies}
    return any(lead_back([head], {head}, whole) for head in heads)


def _is_latched(changes: list[Node], heads: list[Node], counts: Counts) -> bool:
    """Whether ranks set it, and leave it so, where their part of the data meets a condition.

    As `found = True` or `first = step`, which says nothing of the part but that it did.
    """
    stays = any(head in left_over(head.passed[1:]) for head in heads if head.varies)
    return stays and any(_is_set_by_part(change, counts) for change in changes)


def _is_set_by_part(change: Node, counts: Counts) -> bool:
    if change.received or change.sliced or not (is_one_item(change) or not change.index):
        return False
    made = near_of([change], set(change.kept))
    if is_on_root(change) or any(node.opaque or node.source for node in made):
        return False
    parts = list(branches_of(change, counts))
    return bool(bits_of(parts) & (w.PART | w.RANK)) and any(place_of(part)[1] for part in parts)


def is_cache(change: Node, program: Program) -> bool:
    """Whether it sets an item once, to what is computed from its key: `if k not in c: c[k] = f(k)`.

    Such an item is the same on the rank that has it after a resize.
    """
    if not asks(change):
        return False
    others = [node for node in change.computed if node not in (change.index or ())]
    made = list(near_of(others, set(change.index or ())))
    is_other = any(node.source & ~w.EMPTY or node.opaque for node in made)
    return not is_other and varying_of(program).isdisjoint(made)


def varying_of(program: Program) -> set[Node]:
    """What variables are at the head of the loops over iterations that change them."""
    return {node for loop in program.loops if loop.over_iterations for node in loop.varying}


def asks(change: Node) -> bool:
    """Whether the condition of a change looks at what is changed."""
    asked = near_of(change.control.branches) if change.control is not None else ()
    return not set(change.kept).isdisjoint(asked)


def _is_used_as_whole(heads: list[Node], program: Program) -> bool:
    whole, sinks = program.whole(), set(program.sinks)
    todo, seen = list(heads), set(heads)
    while todo:
        node = todo.pop()
        for user in whole.users(node):
            index = [each for each in user.index or () if each not in seen]  # not the container
            reads_own = not user.kept and bits_of(index) & (w.RANK | w.PART)
            if user in seen or user.control is node or reads_own:
                continue
            if user in sinks:
                return True
            seen.add(user)
            todo.append(user)
    return False


def is_of_own(change: Node, counts: Counts) -> bool:
    """Whether it changes an attribute of objects that are taken from those of this rank.

    As `for block in blocks[rank::size]`, or where the rank selects them by a condition.
    """
    if change.kept or not change.index:
        return False
    taken = [node.index for node in left_over(change.index) if node.index]
    if any(bits_of(index, of=w.RANK) & w.RANK for index in taken):
        return True
    return bool(taken) and bool(bits_of(branches_of(change, counts), of=w.RANK) & w.RANK)


def is_own_item(change: Node, counts: Counts) -> bool:
    """Whether a change of an item is of one that the rank selects, or of a rank's value."""
    if change.received or is_on_root(change):
        return False
    if bits_of([*(change.index or ()), *branches_of(change, counts)], of=w.RANK) & w.RANK:
        return True
    bits = bits_of(change.computed, of=w.RANK | w.PART | w.CLOCK)
    varies = bool(change.index) and place_of(Node(change.index or ()))[1]
    return varies and bool(bits & (w.RANK | w.PART)) and not bits & w.CLOCK


def is_number(changes: list[Node], whole: Whole) -> bool:
    """Whether a variable has the number of a rank: what is left of a division by their number."""
    near = left_over(changes)
    near |= {part for node in near for part in node.computed}
    divisors = [node.divisor for node in near if node.divisor]
    return any((whole.sources(each) | bits_of(each)) & w.SIZE for each in divisors)


def is_one_item(change: Node) -> bool:
    """Whether it changes the same item each time, as `state["part"]`."""
    return change.index is not None and place_of(Node(change.index)) == (0, False)


def _made(change: Node) -> list[Node]:
    """The change, and those in the functions whose calls make it."""
    todo, found = [change], []
    seen: set[Node] = set()
    while todo:
        node = todo.pop()
        if node in seen or node.root is not None:
            continue
        seen.add(node)
        found.append(node)
        if node.call is not None and node.out in node.call.body.exit:
            todo.append(node.call.body.exit[node.out])
        elif node is not change and not (node.computed or node.kept or node.source):
            todo += node.passed
    return found


def _is_received(node: Node) -> bool:
    parts = [*node.computed, *node.passed]
    parts += [part for item in parts if item.index is not None for part in item.computed]
    return node.received or any(each.received for each in parts)


def _is_partial(change: Node) -> bool:
    """Whether it changes a part only, and not the same one each time, as far as one can see."""
    if not change.kept or change.received:
        return False
    index = Node(each for each in change.computed if not each.received)
    return not _is_received(change) or place_of(index)[1]


def _is_read_first(
    heads: Iterable[Node], changes: set[Node], whole: Whole, matter: set[Node]
) -> bool:
    """Whether what the last iteration has left is used before it is changed again."""
    todo, seen = list(heads), set(heads)
    while todo:
        node = todo.pop()
        for user in whole.users(node):
            if user in seen or user.ends_loop or user in changes:
                continue
            seen.add(user)
            if node in user.computed or user.control is node:
                if user in matter or user.varies:
                    return True
            elif not _passes_change(user, changes):
                todo.append(user)
    return False


def _passes_change(node: Node, changes: set[Node]) -> bool:
    """Whether two ways meet there, and one of them has changed the variable."""
    todo, seen = [each for each in node.passed if not each.varies], {node}
    while todo:
        each = todo.pop()
        if each in seen:
            continue
        seen.add(each)
        if each in changes or each.call is not None:
            return True
        todo += [*each.passed, *each.kept]
    return False
