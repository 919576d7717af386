"""Goes through a function once, in the order in which it runs, and draws the graph of its values.

Each slot (graph.py) has a version at each place. Where two ways meet, a version is one of two; at
the head of a loop it is the one from before or the one that the last iteration has left.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field

from dq_client.check.graph import Body, Call, Item, Node
from dq_client.check.program import Loop, Program
from dq_client.check.scopes import Function, Scope
from dq_client.check.words import BY_NAME

PATH_MAX = 4  # attributes in a slot

Now = dict[
    str, Node
]  # the versions of slots; "x*": the attributes of x are those of another object


@dataclass(eq=False, slots=True)
class Frame:
    """A function, or an iteration of a loop in it."""

    outer: Frame | None = None
    before: Now = field(default_factory=dict)  # of an iteration: the versions before the loop
    loop: Loop | None = None
    memo: Now = field(default_factory=dict)  # slots as they are at its begin
    breaks: list[Now] = field(default_factory=list)
    continues: list[Now] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Value:
    """What an expression gives: made of these nodes."""

    nodes: list[Node] = field(default_factory=list)
    kind: str = ""
    passed: bool = False  # it is one of them, not computed from them
    path: str = ""  # the slot that it stands in, or that it is a view of
    within: str = ""  # the slot of the container that it is an item of
    view: list[Node] = field(default_factory=list)  # which part of that slot it is; empty: all
    parts: tuple[Value, ...] = ()  # what its items are made of, as those of zip(a, b)
    made: Call | None = None  # the object that this call of __init__ has made
    item: Item | None = None  # which item of a variable it is
    copied: bool = False  # it is another list of the items of `within`, as list(x) makes it
    is_text: bool = False  # it is a constant text
    elements: tuple[Value, ...] = ()  # of a tuple, as a function returns it

    def node(self) -> Node:
        """As one node."""
        if self.passed:
            return (
                self.nodes[0] if len(self.nodes) == 1 else Node(passed=self.nodes, kind=self.kind)
            )
        return Node(self.nodes, kind=self.kind)

    def other_view(self, nodes: list[Node]) -> Value:
        """The same memory, seen in another way, as by reshape."""
        return Value(nodes, path=self.path, within=self.within, view=self.view)

    def listed(self, nodes: list[Node]) -> Value:
        """The same items in another container, as list() makes it."""
        within = self.path or self.within
        return Value(nodes, within=within, view=self.view, parts=self.parts, copied=True)

    def stretch(self, nodes: list[Node], index: list[Node]) -> Value:
        """Some of the items of another container."""
        parts = [
            Value(p.nodes, within=p.within, view=[*p.view, *index], parts=p.parts)
            for p in self.parts
        ]
        view = [*self.view, *index]
        return Value(nodes, within=self.within, view=view, parts=tuple(parts), copied=True)


NOTHING = Value()


class Flow:
    """The state while one scope is gone through; expressions are read in values.py."""

    def __init__(self, program: Program, scope: Scope, kinds: dict[str, str]) -> None:
        self.program, self.scope = program, scope
        self.body = Body(scope.number, outside=program.outside, kinds=kinds)
        program.bodies[scope.number] = self.body
        self.control: Node | None = None
        if scope.parent is not None:
            self.control = self._root("@control")
        self.frame = Frame()
        self.now: Now = {}
        self._with_attributes: set[str] = set()  # first parts of slots such as `solver.t`
        self.dead = False  # what follows is not reached
        self.ends: list[Now] = []
        self.jumps: list[Node] = []  # the conditions under which something was left out
        self.parameters = set(scope.parameters)
        if scope.parent is not None:
            given = scope.node.args  # type: ignore[union-attr]
            self.parameters |= {a.arg for a in (given.vararg, given.kwarg) if a is not None}
        self.renamed: dict[str, str] = {}  # the variables of comprehensions
        self.aliases: dict[str, tuple[str, int]] = {}  # of which slot, and after how many binds
        self.binds: dict[str, int] = {}
        self.members: dict[str, str] = {}  # slots that have an item of a container: whose
        self.views: dict[str, list[Node]] = {}  # of both: which part it is
        self.items: dict[str, Item | None] = {}  # the same, as it is written

    # --- slots ------------------------------------------------------------------------------------

    def slot(self, name: str) -> str:
        """The slot of a name, as it is written here."""
        if name in self.renamed:
            return self.renamed[name]
        owner = self.scope.owner(name)
        return name if owner is self.scope else f"^{owner.number}:{name}"

    def path(self, node: ast.expr) -> str:
        """The slot of `a.b.c`; empty for what has none."""
        if isinstance(node, ast.Name):
            slot = self.slot(node.id)
            return self.alias(slot) or slot
        if isinstance(node, ast.Attribute):
            base = self.path(node.value)
            found = f"{base}.{node.attr}" if base and base.count(".") < PATH_MAX else ""
            return self.alias(found) or found
        return ""

    def alias(self, slot: str) -> str:
        """The slot whose object a variable is another name for, or a view of; empty: none."""
        path, binds = self.aliases.get(slot, ("", 0))
        return path if path and self.binds.get(_base(path), 0) == binds else ""

    def name_also(self, slot: str, value: Value) -> None:
        """Note that a slot has an object that stands in another one, too, or a view of it."""
        if value.path and value.path != slot:
            self.aliases[slot] = (value.path, self.binds.get(_base(value.path), 0))
            self.views[slot] = value.view

    def get(self, slot: str) -> Node:
        """Its version now."""
        return self.version(slot, self.now, self.frame)

    def version(self, slot: str, now: Now, frame: Frame) -> Node:
        node = now.get(slot)
        if node is None:
            base, _, attribute = slot.rpartition(".")
            if base:
                self._with_attributes.add(_base(slot))
            if base and _is_other(base, now):
                return self.program.attribute(attribute)
            node = frame.memo.get(slot)
            if node is None:
                node = frame.memo[slot] = self._first_version(slot, frame)
        return node

    def _first_version(self, slot: str, frame: Frame) -> Node:
        if frame.outer is None:
            return self._at_begin(slot)
        before = self.version(slot, frame.before, frame.outer)
        head = Node(passed=[before], kind=before.kind)
        assert frame.loop is not None
        head.scope, head.file_line = self.scope.number, frame.loop.line
        frame.loop.heads[slot], frame.loop.entered[slot] = head, before
        return head

    def put(self, slot: str, node: Node, line: int) -> None:
        """Give a slot a new version: it is changed, and stays the object that it is."""
        node.scope, node.file_line = self.scope.number, line
        node.control = self.control
        self.now[slot] = node
        base, _, attribute = slot.rpartition(".")
        if base:
            self._with_attributes.add(_base(slot))
            self.program.attributes[attribute].append(node)
        elif slot.startswith("^"):
            number, _, name = slot[1:].partition(":")
            self.program.names[(int(number), name)].append(node)
        elif "%" not in slot:
            self.program.names[(self.scope.number, slot)].append(node)

    def bind(self, slot: str, node: Node, line: int) -> None:
        """Give a slot another object: what was known of its attributes counts no longer."""
        self.put(slot, node, line)
        node.rebound = True
        self.binds[slot] = self.binds.get(slot, 0) + 1
        self.aliases.pop(slot, None)
        self.members.pop(slot, None)
        self.views.pop(slot, None)
        self.items.pop(slot, None)
        self.replaced(slot, node)

    def replaced(self, slot: str, node: Node) -> None:
        """Another object stands in a slot."""
        if _base(slot) in self._with_attributes:
            for known in [k for k in self.now if k.startswith(slot + ".")]:
                del self.now[known]
        self.now[slot + "*"] = node

    def _at_begin(self, slot: str) -> Node:
        """What a slot is when the function begins."""
        base = _base(slot)
        in_module = self.scope.parent is None
        if slot.startswith("^") or (base in self.parameters and not in_module):
            node = self._root(slot)
        elif "." in slot:
            node = self.program.attribute(slot.rpartition(".")[2])
        else:
            node = Node(kind=self.kind_of_name(self.scope.number, slot))
        return node

    def _root(self, slot: str) -> Node:
        is_new = slot not in self.body.roots
        node = self.body.root(slot)
        if is_new:
            node.kind = self._kind_at_begin(slot)
        return node

    def captured(self, scope: Scope) -> list[Node]:
        """What a function that is defined here remembers of the functions around it."""
        if self.scope.parent is None:
            return []
        slots = [self.slot(name) for name in sorted(scope.free)]
        return [self.get(slot) for slot in slots if not slot.startswith("^0:")]

    def _kind_at_begin(self, slot: str) -> str:
        if "." in slot:
            return self.program.attribute(slot.rpartition(".")[2]).kind
        if slot.startswith("^"):
            number, _, name = slot[1:].partition(":")
            return self.kind_of_name(int(number), name)
        return self.body.kinds.get(slot) or BY_NAME.get(slot, "")

    def kind_of_name(self, scope: int, name: str) -> str:
        """What a name stands for, wherever it is bound: a function, a class, what it is given."""
        function = self.program.functions.get((scope, name))
        if function is not None:
            return f"function:{function.number}"
        if name in self.program.classes:
            return f"class:{name}"
        given = next((n.kind for n in self.program.names.get((scope, name), ()) if n.kind), "")
        body = self.program.bodies.get(scope)
        given = given or (body.kinds.get(name, "") if body is not None else "")
        return given or BY_NAME.get(name, "")

    # --- ways that part and meet ------------------------------------------------------------------

    def meet(self, ways: Iterable[Now | None], frame: Frame) -> Now | None:
        """The versions after one of several ways; None: those that end elsewhere."""
        reached = [way for way in ways if way is not None]
        if not reached:
            return None
        merged = reached[0]
        for other in reached[1:]:
            both = dict(merged)
            for slot in merged.keys() | other.keys():
                if slot.endswith("*"):
                    both[slot] = merged.get(slot) or other[slot]
                    continue
                one, two = self.version(slot, merged, frame), self.version(slot, other, frame)
                if one is not two:
                    both[slot] = Node(passed=[one, two], kind=one.kind or two.kind)
                else:
                    both[slot] = one
            merged = both
        return merged

    def condition(self, parts: Iterable[Node], ordered: Iterable[Node] = ()) -> Node:
        """What decides whether the next statements run, with all around it."""
        node = Node(parts, control=self.control)
        node.ordered = list(ordered)
        return node

    def jumped(self, since: int) -> None:
        """From here on it depends on the conditions of jumps whether statements are reached."""
        if len(self.jumps) > since:
            around, parts = self.control, list[Node]()
            for jump in self.jumps[since:]:
                node: Node | None = jump
                while node is not None and node is not around:
                    parts += node.branches
                    node = node.control
            self.control = self.condition(self.jumps[since:])
            self.control.branches = parts

    def end_function(self) -> None:
        """The slots that the function leaves otherwise than it found them."""
        ends = [*self.ends, *([] if self.dead else [self.now])]
        last = self.meet(ends, self.frame) or {}
        for slot, node in last.items():
            ours = slot.startswith("^") or _base(slot) in self.parameters
            rebound = slot in self.parameters and self.binds.get(slot, 0)
            other = not slot.startswith("^") and _is_other(_base(slot), last) and "." in slot
            is_left = ours and not rebound and not other and not slot.endswith("*")
            if is_left and _is_changed(node, self.body.roots.get(slot)):
                self.body.exit[slot] = node

    def translated(self, slot: str, call: Call) -> str:
        """A slot of a called function in this one; empty if it has none here."""
        if slot.startswith("^"):
            number, _, rest = slot[1:].partition(":")
            return rest if int(number) == self.scope.number else slot
        base, dot, rest = slot.partition(".")
        path = call.paths.get(base, "")
        found = f"{path}{dot}{rest}" if path else ""
        return found if found.count(".") <= PATH_MAX else ""


def _is_changed(node: Node, root: Node | None) -> bool:
    """Whether a version is another one than the function began with, whichever way it went."""
    todo, seen = [node], {root}
    while todo:
        each = todo.pop()
        if each not in seen:
            seen.add(each)
            meets = not each.computed and not each.kept and each.call is None and each.root is None
            if not meets or not each.passed or each.control is not None:
                return True
            todo += each.passed
    return False


def _base(slot: str) -> str:
    return slot.partition(".")[0]


def _is_other(slot: str, now: Now) -> bool:
    """Whether the slot, or what it is an attribute of, was bound to another object."""
    while slot:
        if slot + "*" in now:
            return True
        slot = slot.rpartition(".")[0]
    return False


def line_of(scope: Scope) -> int:
    """Where a function stands."""
    return scope.node.lineno if isinstance(scope.node, Function | ast.Lambda) else 0
