"""What values of a program come from, as a graph: a node is one version of a variable, or a value.

Edges lead from a value to what it was made of. Calls of the program's functions are edges, too:
from the result of a call into the function, and from its parameters back to the arguments of that
same call. So `f(rank)` and `f(3)` are kept apart. A question is a walk over the graph.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field

from dq_client.check.scopes import is_whole

DEPTH_MAX = 5  # of calls that are told apart
ANY = -1  # all sources
ELEMENT = "@"  # with its number: an element of the tuple that a function returns
STATES_MAX = 5_000  # of a walk that tells calls apart; after these, the worst is assumed
COMPUTED, PASSED, KEPT, CONTROL = range(4)  # kinds of edges
Skip = Callable[["Node"], bool]


class Node:
    """A version of a variable, or a value."""

    __slots__ = (
        *("added", "assigned", "branches", "call", "computed", "control", "divisor"),
        *("ends_for", "ends_loop", "file_line", "gathered", "index", "kept", "kind"),
        *("length", "most", "on_root", "opaque", "ordered", "out", "passed", "rebound"),
        *("received", "reorders", "root", "scope", "sent", "shared", "single", "sliced"),
        *("source", "truth", "under", "varies", "which"),
    )  # fmt: skip

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
        self.branches: list[Node] = []  # of a condition: the parts that must all be true
        self.on_root: Node | None = None  # of a condition: what is 0 where it is true
        self.received = False  # it came from one other rank
        self.divisor: list[Node] = []  # of `a % b`: what b is
        self.index: list[Node] | None = None  # of an item that is read, or changed: which one
        self.length = False  # how many items something has
        self.truth = False  # the result of a comparison
        self.reorders, self.single = False, False  # a container's items; an array of one number
        self.sliced = False  # of an item that is changed: it is a range of an array, as a[:n]
        self.which: Item | None = None  # of an item that is read, or changed: as it is written
        self.under: Node | None = None  # of an item that is read: the condition under which
        self.gathered = False  # a list with an entry of each rank
        self.assigned = False  # an assignment gives the variable this value
        self.added: list[Node] | None = None  # of `x = x + y`, and of an extreme: y
        self.sent: list[Node] = []  # of what a collective call gives: what this rank has given
        self.shared = False  # the result of a collective call, the same on all ranks
        self.varies = False  # at the head of a loop: another one in each iteration
        self.ends_loop = False  # what a loop has left, for the statements after it
        self.ends_for = False  # the same of a `for` inside of it
        self.call: Call | None = None  # it comes out of this call: the result, or the slot `out`
        self.out = ""
        self.root: tuple[Body, str] | None = None  # what a slot is when a function begins
        self.opaque = False  # the result of a function that is not known
        self.scope, self.file_line = -1, 0  # where a variable gets this version
        self.rebound = False  # as another object, not by a change of the one it is
        self.most = ANY  # the sources that it may come from, once Whole knows


def is_name(node: ast.AST) -> bool:
    """Whether it is a name, of which an item notes the version."""
    return isinstance(node, ast.Name)


def first(version: Node) -> Node:
    """The version that this one is in any case, as where a loop does not change it."""
    while len(version.passed) == 1 and not (version.computed or version.kept or version.call):
        version = version.passed[0]
    return version


@dataclass(eq=False, slots=True)
class Item:
    """An item as it is written: `[k, :n]`, with the versions that its names have there.

    is_range: it is a part of an array, and to take it makes no copy
    """

    indices: list[ast.expr]
    versions: tuple[Node, ...]
    is_range: bool

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for what is surely the same item."""
        return (*map(ast.dump, self.indices), *self.versions)

    @property
    def parts(self) -> list[tuple[str, tuple[Node, ...]]]:
        """Each index, of `[k, j]` two: as it is written, with the versions of its names."""
        versions = iter(self.versions)
        found: list[tuple[str, tuple[Node, ...]]] = []
        for index in self.indices:  # the innermost first: of `x[k][j]`, j
            split = list(index.elts) if isinstance(index, ast.Tuple) else [index]
            while split and is_whole(split[-1]):  # `[k, :]` is `[k]`
                split.pop()
            found[:0] = [
                (ast.dump(e), tuple(first(next(versions)) for n in ast.walk(e) if is_name(n)))
                for e in split
            ]
        return found

    def holds(self, other: Item) -> bool:
        """Whether the other is surely a part of this one, as `[j, k]` is of `[j]`."""
        here, there = self.parts, other.parts
        return 0 < len(here) < len(there) and here == there[: len(here)]


@dataclass(eq=False, slots=True)
class Call:
    """A call of one of the program's functions."""

    body: Body
    scope: int  # that calls
    line: int
    entry: dict[str, Node] = field(default_factory=dict)  # what slots of the function are then
    paths: dict[str, str] = field(default_factory=dict)  # parameters: the caller's slots
    texts: set[str] = field(default_factory=set)  # parameters that are given a constant text


@dataclass(eq=False, slots=True)
class Body:
    """A function: what its slots are at its begin and its end.

    A slot is a variable or an attribute of one: `x`, `self.t`; `^2:x` is the x of scope 2.
    """

    scope: int
    result: Node = field(default_factory=Node)
    roots: dict[str, Node] = field(default_factory=dict)
    exit: dict[str, Node] = field(default_factory=dict)
    elements: int = 0  # of the tuple that every return gives; 0: not known
    calls: list[Call] = field(default_factory=list)
    outside: Callable[[str], Node | None] = lambda _: None  # a slot, if no call is known
    returns: tuple[str, str] = ("", "")  # the slot that its result stands in, or is an item of
    kinds: dict[str, str] = field(default_factory=dict)  # of its parameters, if they are known

    def add_elements(self, elements: list[Node], kinds: list[str]) -> None:
        """Note what one return gives as a tuple, before its result is noted."""
        if not self.result.passed:
            self.elements = len(elements)
        elif self.elements != len(elements):
            self.elements = 0
        for number, (element, kind) in enumerate(zip(elements, kinds, strict=True)):
            of_all = self.exit.setdefault(f"{ELEMENT}{number}", Node())
            of_all.passed.append(element)
            of_all.kind = of_all.kind or kind

    def root(self, slot: str) -> Node:
        """A slot as the function finds it."""
        if slot not in self.roots:
            self.roots[slot] = Node()
            self.roots[slot].root = (self, slot)
        return self.roots[slot]


Stack = tuple[Call, ...]
State = tuple[Node, Stack]


def edges(
    node: Node, stack: Stack, counts: Callable[[Call], bool] | None = None
) -> Iterator[tuple[Node, Stack, int]]:
    """What a node comes from, within these calls, and how.

    counts: where it is open which call a function was entered by: those that count
    """
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
        yield from _before(*node.root, stack, counts)


def _before(
    body: Body, slot: str, stack: Stack, counts: Callable[[Call], bool] | None = None
) -> Iterator[tuple[Node, Stack, int]]:
    """What a slot was before the function began."""
    calls = body.calls
    if counts is not None:
        calls = [call for call in calls if counts(call)] or calls
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


class Whole:
    """All nodes at once, with calls of one function not told apart: the most that can be.

    Where it says no, no walk is needed, and walks stay where it says perhaps.
    """

    def __init__(self, starts: Iterable[Node]) -> None:
        self._next: dict[Node, list[Node]] = {}
        todo = list(starts)
        while todo:
            node = todo.pop()
            if node not in self._next:
                further = [each for each, _, _ in edges(node, ())] + node.ordered
                self._next[node] = further
                todo += further
        self._sources = self._spread()
        for node in self._next:
            node.most = self._sources.get(node, 0)
        self._circle: dict[Node, int] = {}
        self._users: dict[Node, list[Node]] = {}

    def sources(self, starts: Iterable[Node]) -> int:
        """The bits that these nodes may come from."""
        found = 0
        for node in starts:
            found |= self._sources.get(node, 0)
        return found

    def users(self, node: Node) -> list[Node]:
        """What is made of it."""
        if not self._users:
            self._users = {each: [] for each in self._next}
            for each, further in self._next.items():
                for one in further:
                    self._users[one].append(each)
        return self._users.get(node, [])

    def circle(self, node: Node) -> int:
        """A number that nodes share which lead to one another."""
        if not self._circle:
            self._find_circles()
        return self._circle.get(node, -1)

    def leads(self, node: Node) -> list[Node]:
        """What it comes from."""
        return self._next.get(node, [])

    def _spread(self) -> dict[Node, int]:
        """From each source to all that come from it."""
        back: dict[Node, list[Node]] = {node: [] for node in self._next}
        for node, further in self._next.items():
            for each in further:
                back[each].append(node)
        found = {node: node.source for node in self._next if node.source}
        todo = list(found)
        while todo:
            node = todo.pop()
            bits = found[node]
            for each in back[node]:
                before = found.get(each, 0)
                if bits & ~before:
                    found[each] = before | bits
                    todo.append(each)
        return found

    def _find_circles(self) -> None:
        """Tarjan's strongly connected components."""
        number: dict[Node, int] = {}
        low: dict[Node, int] = {}
        open_: list[Node] = []
        for start in self._next:
            if start in number:
                continue
            work = [(start, iter(self._next[start]))]
            number[start] = low[start] = len(number)
            open_.append(start)
            while work:
                node, further = work[-1]
                for each in further:
                    if each not in number:
                        number[each] = low[each] = len(number)
                        open_.append(each)
                        work.append((each, iter(self._next[each])))
                        break
                    if each not in self._circle:
                        low[node] = min(low[node], number[each])
                else:
                    work.pop()
                    if work:
                        low[work[-1][0]] = min(low[work[-1][0]], low[node])
                    if low[node] == number[node]:
                        while open_[-1] is not node:
                            self._circle[open_.pop()] = number[node]
                        self._circle[open_.pop()] = number[node]


def reached(starts: Iterable[Node], whole: Whole) -> set[Node]:
    """All that these nodes come from, with themselves."""
    seen: set[State] = {(node, ()) for node in starts}
    todo = list(seen)
    while todo and len(seen) < STATES_MAX:
        for node, stack, _ in edges(*todo.pop()):
            state = (node, stack)
            if state not in seen:
                seen.add(state)
                todo.append(state)
    found = {node for node, _ in seen}
    rest = [node for node, _ in todo]
    while rest:
        for node in whole.leads(rest.pop()):
            if node not in found:
                found.add(node)
                rest.append(node)
    return found


def sources(
    starts: Iterable[Node],
    whole: Whole,
    skip: Skip | None = None,
    counts: Callable[[Call], bool] | None = None,
) -> int:
    """The bits of what these nodes come from; counts: as in `edges`."""
    starts = list(starts)
    most, found = whole.sources(starts), 0
    seen: set[State] = {(node, ()) for node in starts}
    todo = list(seen)
    while todo and found != most:
        node, stack = todo.pop()
        found |= node.source
        for each, inside, _ in edges(node, stack, counts):
            state = (each, inside)
            is_new = state not in seen and whole.sources([each]) & ~found
            if is_new and (skip is None or not skip(each)):
                seen.add(state)
                todo.append(state)
        if len(seen) > STATES_MAX:
            return most
    return found


def lead_back(
    starts: Iterable[Node],
    ends: set[Node],
    whole: Whole,
    *,
    computed: bool = False,
    conditions: bool = True,
) -> bool:
    """Whether one of these is computed from an end that it leads to again.

    Not only passed on, nor left as it was by a change of another part. computed: what these lead to
    is computed from it in any case. conditions: a value counts that `<` compares around a change
    """
    circles = {whole.circle(end) for end in ends} - {-1}
    seen: set[tuple[Node, Stack, bool]] = {
        (start, (), computed) for start in starts if whole.circle(start) in circles
    }
    todo = list(seen)
    while todo and len(seen) < STATES_MAX:
        node, stack, so_far = todo.pop()
        for each, inside, how in edges(node, stack):
            if how == KEPT or (how == CONTROL and not conditions):
                continue
            if how == CONTROL:
                further = [(part, at, True) for part, at in compared(each, inside)]
            else:
                further = [(each, inside, so_far or how == COMPUTED)]
            for state in further:
                if state[2] and state[0] in ends:
                    return True
                if state not in seen and whole.circle(state[0]) in circles:
                    seen.add(state)
                    todo.append(state)
    return bool(todo)


def compared(control: Node, stack: Stack) -> Iterator[State]:
    """What `<` and `>` compare in the conditions around a place: a running minimum is a sum, too.

    The conditions of its function, and those around the call of it.
    """
    todo = [(control, stack, True)]
    while todo:
        node, inside, in_function = todo.pop()
        for part in node.ordered:
            yield part, inside
        if node.control is not None:
            todo.append((node.control, inside, in_function))
        if node.root is not None and in_function:
            todo += [(each, rest, False) for each, rest, _ in _before(*node.root, inside)]


def made_of(starts: Iterable[Node], without: Container[Node] = ()) -> Iterator[Node]:
    """These nodes and all that they come from, conditions aside; one may come several times."""
    seen: set[State] = {(start, ()) for start in starts}
    todo = list(seen)
    while todo:
        node, stack = todo.pop()
        yield node
        for each, inside, how in edges(node, stack):
            if how != CONTROL and (each, inside) not in seen and each not in without:
                seen.add((each, inside))
                todo.append((each, inside))


def left_over(starts: Iterable[Node]) -> set[Node]:
    """These nodes, and those that they are, or that changes of parts have left of them."""
    seen: set[State] = {(start, ()) for start in starts}
    todo = list(seen)
    while todo and len(seen) < STATES_MAX:
        node, stack = todo.pop()
        for each, inside, how in edges(node, stack):
            if how in (PASSED, KEPT) and (each, inside) not in seen:
                seen.add((each, inside))
                todo.append((each, inside))
    return {node for node, _ in seen}


def is_made_of(start: Node, wanted: int, harmless: int) -> bool:
    """Whether a value is one of these sources, with at most harmless others and constants."""
    found = 0
    for number, node in enumerate(made_of([start])):
        found |= node.source
        is_other = node.opaque or node.shared or (node.varies and not node.passed)  # a loop's item
        if is_other or found & ~(wanted | harmless) or number > STATES_MAX:
            return False
    return bool(found & wanted)
