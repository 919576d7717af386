"""What values of a program come from, as a graph: a node is one version of a variable, or a value.

Edges lead from a value to what it was made of. Calls of the program's functions are edges, too: from
the result of a call into the function, and from its parameters back to the arguments of that same
call. So `f(rank)` and `f(3)` are kept apart. A question is a walk over the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

DEPTH_MAX = 5  # of calls that are told apart
STATES_MAX = 5_000  # of a walk that tells calls apart; a longer one does not
COMPUTED, PASSED, KEPT, CONTROL = range(4)  # kinds of edges
Skip = Callable[["Node"], bool]


class Node:
    """A version of a variable, or a value."""

    __slots__ = (
        *("call", "control", "computed", "file_line", "kept", "kind", "opaque", "ordered", "out"),
        *("passed", "root", "scope", "source"),
    )

    def __init__(
        self,
        computed: Iterable[Node] = (),
        *,
        passed: list[Node] | None = None,
        kept: Iterable[Node] = (),
        control: Node | None = None,
        kind: str = "",
        source: int = 0,
    ) -> None:
        self.computed = list(computed)  # it was computed from these
        self.passed = [] if passed is None else passed  # it is one of these
        self.kept = list(kept)  # what a change of a part has left as it was
        self.control = control  # the condition under which it came about
        self.kind, self.source = kind, source
        self.ordered: list[Node] = []  # of a condition: what `<` and `>` in it compare
        self.call: Call | None = None  # it comes out of this call: the result, or the slot `out`
        self.out = ""
        self.root: tuple[Body, str] | None = None  # what a slot is when a function begins
        self.opaque = False  # the result of a function that is not known
        self.scope, self.file_line = -1, 0  # where a variable gets this version


@dataclass(eq=False, slots=True)
class Call:
    """A call of one of the program's functions."""

    body: Body
    scope: int  # that calls
    line: int
    entry: dict[str, Node] = field(default_factory=dict)  # what slots of the function are then
    paths: dict[str, str] = field(default_factory=dict)  # parameters: the caller's slots


@dataclass(eq=False, slots=True)
class Body:
    """A function: what its slots are at its begin and its end.

    A slot is a variable or an attribute of one: `x`, `self.t`; `^2:x` is the x of scope 2.
    """

    scope: int
    result: Node = field(default_factory=Node)
    roots: dict[str, Node] = field(default_factory=dict)
    exit: dict[str, Node] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    outside: Callable[[str], Node | None] = lambda _: None  # a slot, if no call is known


Stack = tuple[Call, ...]
State = tuple[Node, Stack]


def edges(node: Node, stack: Stack) -> Iterator[tuple[Node, Stack, int]]:
    """What a node comes from, within these calls, and how."""
    for each in node.computed:
        yield each, stack, COMPUTED
    for each in node.passed:
        yield each, stack, PASSED
    for each in node.kept:
        yield each, stack, KEPT
    if node.control is not None:
        yield node.control, stack, CONTROL
    call = node.call
    if call is not None and call not in stack:
        inner = call.body.exit.get(node.out) if node.out else call.body.result
        if inner is not None:
            yield inner, (*stack, call) if len(stack) < DEPTH_MAX else (), PASSED
    if node.root is not None:
        yield from _before(*node.root, stack)


def _before(body: Body, slot: str, stack: Stack) -> Iterator[tuple[Node, Stack, int]]:
    """What a slot was before the function began."""
    calls = body.calls
    rest: Stack = ()
    if stack and stack[-1].body is body:
        calls, rest = [stack[-1]], stack[:-1]
    known = [node for call in calls if (node := call.entry.get(slot)) is not None]
    for node in known:
        yield node, rest, PASSED
    if len(known) < max(len(calls), 1) and slot[0] != "@":
        outside = body.outside(slot)
        if outside is not None:
            yield outside, (), PASSED


def reached(starts: Iterable[Node], skip: Skip | None = None) -> set[Node]:
    """All that these nodes come from, with themselves."""
    starts = list(starts)
    for apart in (True, False):
        seen: set[State] = {(node, ()) for node in starts}
        todo = list(seen)
        while todo and (len(seen) < STATES_MAX or not apart):
            for node, stack, _ in edges(*todo.pop()):
                state = (node, stack if apart else ())
                if state not in seen and not (skip is not None and skip(node)):
                    seen.add(state)
                    todo.append(state)
        if not todo:
            break
    return {node for node, _ in seen}


def sources(starts: Iterable[Node], skip: Skip | None = None) -> int:
    """The bits of what these nodes come from."""
    found = 0
    for node in reached(starts, skip):
        found |= node.source
    return found


def depends_on_itself(start: Node, ends: Callable[[Node], bool]) -> bool:
    """Whether a value is computed from what `ends` finds, not only passed on or left in part."""
    for apart in (True, False):
        seen: set[tuple[Node, Stack, bool]] = {(start, (), False)}
        todo = list(seen)
        while todo and (len(seen) < STATES_MAX or not apart):
            node, stack, computed = todo.pop()
            for each, inside, how in edges(node, stack):
                if how == KEPT:
                    continue
                if how == CONTROL:
                    further = [(part, at, True) for part, at in _compared(each, inside)]
                else:
                    further = [(each, inside, computed or how == COMPUTED)]
                for part, at, is_computed in further:
                    if is_computed and ends(part):
                        return True
                    state = (part, at if apart else (), is_computed)
                    if state not in seen:
                        seen.add(state)
                        todo.append(state)
        if not todo:
            break
    return False


def _compared(control: Node, stack: Stack) -> Iterator[State]:
    """What `<` and `>` compare in the conditions around a place: a running minimum is a sum, too."""
    todo, seen = [(control, stack)], set()
    while todo:
        state = todo.pop()
        if state not in seen:
            seen.add(state)
            node, inside = state
            for part in node.ordered:
                yield part, inside
            if node.control is not None:
                todo.append((node.control, inside))
            if node.root is not None:
                todo += [(each, rest) for each, rest, _ in _before(*node.root, inside)]


def is_made_of(start: Node, wanted: int, harmless: int) -> bool:
    """Whether a value is one of these sources, with at most harmless others and constants."""
    seen: set[State] = {(start, ())}
    todo = list(seen)
    found = 0
    while todo:
        node, stack = todo.pop()
        if node.opaque:
            return False
        found |= node.source
        if found & ~(wanted | harmless) or len(seen) > STATES_MAX:
            return False
        for each, inside, how in edges(node, stack):
            if how != CONTROL and (each, inside) not in seen:
                seen.add((each, inside))
                todo.append((each, inside))
    return bool(found & wanted)
