"""A file as a program: its scopes and classes, and the graph of all its values."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from dq_client.check import words as w
from dq_client.check.graph import Body, Call, Node, Whole, reached
from dq_client.check.own_files import FileUse
from dq_client.check.scopes import Function, Scope, rebuilds, statements_of
from dq_client.check.turns import Quotient, Turn

STRIDE = 10**6  # lines of one file at most: those of the next one begin there
CONTAINED = w.GROWS | w.READS | w.DRAWS | w.REORDERS
OBJECT_BASES = {"object", "Protocol", "ABC", "NamedTuple", "Generic", "Enum", "Exception"}


@dataclass(eq=False, slots=True)
class Class:
    """A class of the file."""

    name: str
    bases: list[str]
    methods: dict[str, Scope] = field(default_factory=dict)
    setters: dict[str, Scope] = field(default_factory=dict)  # of properties
    fields: list[str] = field(default_factory=list)  # of a dataclass, in their order
    attributes: set[str] = field(default_factory=set)  # that the class and its methods bind
    is_dataclass: bool = False


@dataclass(eq=False, slots=True)
class Loop:
    """A loop of the program, and the versions that variables have at its head."""

    scope: int
    line: int
    end: int
    over_iterations: bool  # of a session
    heads: dict[str, Node] = field(default_factory=dict)  # by slot
    entered: dict[str, Node] = field(default_factory=dict)  # what these were before the loop
    items: Node | None = None  # what it goes over, one in each iteration
    calls: int = 0  # the scope of a function that the session calls again and again

    @property
    def varying(self) -> list[Node]:
        """What is another one in each iteration."""
        return [node for node in (self.items, *self.heads.values()) if node and node.varies]


class Program:
    """What is known of a file; `flow.py` fills it."""

    def __init__(self, tree: ast.Module, scopes: list[Scope]) -> None:
        self.scopes = scopes
        self.of_node = {id(scope.node): scope for scope in scopes}
        self.classes = _classes_of(tree, self.of_node)
        self.functions: dict[tuple[int, str], Scope] = {
            (s.parent.number, s.name): s
            for s in scopes
            if s.name and s.parent is not None and not s.in_class
        }
        self.names: defaultdict[tuple[int, str], list[Node]] = defaultdict(list)
        self.attributes: defaultdict[str, list[Node]] = defaultdict(list)
        self.bodies: dict[int, Body] = {}
        self.calls: list[Call] = []
        self.loops: list[Loop] = []
        self.sinks: list[Node] = []
        self.turns: list[Turn] = []
        self.quotients: list[Quotient] = []
        self.run_again: set[int] = set()  # functions that are given to rs.setup, rs.on_resize
        self.escaped: set[str] = set()  # classes of which a method is passed on: who calls it?
        self.operands: dict[int, list[list[Node]]] = {}  # of sums, by the id of the expression
        self.files: list[FileUse] = []
        self.caught = Node()  # an exception of the program, whichever
        self.environment: list[Node] = []  # what the program has set there
        self.indexed: list[tuple[Node, Node]] = []  # what items are taken of, and by which index
        self.value_changes: list[Node] = []  # what is given to values of the session
        self.data_changes: list[
            Node
        ] = []  # where declared data are changed: under which conditions
        self.communication: list[tuple[int, int]] = []  # scope and line of each call of MPI
        self.kept: set[tuple[int, str]] = set()  # variables given to rs.keep
        self.defaults: dict[tuple[int, str], Node] = {}  # of parameters
        self.seeded: dict[str, list[Node]] = {}  # the global generators that the program seeds
        self.wrapped: defaultdict[int, list[str]] = defaultdict(list)  # what decorators make of it
        self._whole: Whole | None = None
        self._matter: set[Node] | None = None
        self._cells: dict[str, Node] = {}
        self._attribute_nodes: dict[str, Node] = {}
        self._methods: defaultdict[str, list[Scope]] = defaultdict(list)
        for each in self.classes.values():
            for name, method in each.methods.items():
                self._methods[name].append(method)

    def attribute(self, name: str) -> Node:
        """An attribute of some object: all that is ever stored in one of that name."""
        if name not in self._attribute_nodes:
            node = Node(passed=self.attributes[name])
            self._attribute_nodes[name] = node
        node = self._attribute_nodes[name]
        node.kind = node.kind or next((n.kind for n in node.passed if n.kind), "")
        return node

    def rebuilds(self, number: int) -> bool:
        """Whether each resize runs a function again: `@rs.setup`, `rs.on_resize(f)`."""
        return number in self.run_again or rebuilds(self.scopes[number].node)

    def whole(self) -> Whole:
        """All nodes, once the program is complete."""
        if self._whole is None:
            versions = [
                n for nodes in (*self.names.values(), *self.attributes.values()) for n in nodes
            ]
            heads = [n for o in self.loops for n in (*o.heads.values(), *o.entered.values())]
            roots = [n for body in self.bodies.values() for n in body.roots.values()]
            indexed = [n for pair in self.indexed for n in pair]
            others = [*self.sinks, *self.value_changes, *indexed, *self.defaults.values()]
            self._whole = Whole([*versions, *heads, *roots, *others])
        return self._whole

    def matters(self) -> set[Node]:
        """The versions of variables that lead to something beyond the program's own variables."""
        if self._matter is None:
            self._matter = reached(self.sinks, self.whole())
        return self._matter

    def outside(self, slot: str) -> Node | None:
        """A slot where no call of the function is known: any version of it."""
        if "." in slot:
            return self.attribute(slot.rpartition(".")[2])
        if slot.startswith("^"):
            if slot not in self._cells:
                text, _, name = slot[1:].partition(":")
                number = int(text)
                cell = self._cells[slot] = Node(passed=self.names[(number, name)])
                if number in self.bodies and name in self.scopes[number].parameters:
                    self._cells[slot] = Node(passed=[cell, self.bodies[number].root(name)])
            return self._cells[slot]
        return None

    def method(self, class_name: str, name: str) -> Scope | None:
        """The method of a class of the file, or of its bases in the file."""
        return next((c.methods[name] for c in self._lineage(class_name) if name in c.methods), None)

    def setter(self, class_name: str, name: str) -> Scope | None:
        """The same of the setter of a property."""
        return next((c.setters[name] for c in self._lineage(class_name) if name in c.setters), None)

    def _lineage(self, class_name: str) -> Iterator[Class]:
        """A class of the file, and its bases in the file."""
        seen: set[str] = set()
        todo = [class_name]
        while todo:
            found = self.classes.get(todo.pop(0))
            if found is not None and found.name not in seen:
                seen.add(found.name)
                yield found
                todo += found.bases

    def only_method(self, name: str, caller: Scope) -> Scope | None:
        """The method of this name, if one class alone has it.

        Containers of any file have methods such as `update`: such a class must be in the caller's.
        """
        found = self._methods.get(name, [])
        if len(found) != 1 or (name in CONTAINED and not _in_one_file(found[0], caller)):
            return None
        return found[0]

    def attributes_of(self, class_name: str) -> set[str]:
        """The names of the attributes that an object of a class of the file may have."""
        found, seen, todo = set[str](), set[str](), [class_name]
        while todo:
            one = self.classes.get(todo.pop())
            if one is not None and one.name not in seen:
                seen.add(one.name)
                found |= one.attributes | set(one.fields)
                todo += one.bases
        return found

    def is_tuple(self, class_name: str) -> bool:
        """Whether a class of the file is a NamedTuple, whose attributes are its items."""
        return class_name in self.classes and "NamedTuple" in self.classes[class_name].bases

    def is_closed(self, class_name: str) -> bool:
        """Whether a class is the file's alone: no base of it may do anything unseen."""
        found = self.classes.get(class_name)
        return found is not None and all(
            base in OBJECT_BASES or self.is_closed(base)
            for base in found.bases
            if base != found.name
        )


def _in_one_file(one: Scope, other: Scope) -> bool:
    """Whether two scopes are of one file; the module's own lines are those of all files."""
    return other.parent is None or one.line // STRIDE == other.line // STRIDE


def attributes_at_heads(
    program: Program, loops: list[Loop], scope: int, whole: str
) -> list[tuple[str, Node]]:
    """What attributes of an object are at the head of loops; without any, where functions begin.

    With their slots. whole: the object's variable in the scope and a dot; `.name.`: all attributes
    of that name
    """
    slots = [(loop.scope, *pair) for loop in loops for pair in loop.heads.items()]
    bodies = program.bodies.values() if not loops else ()  # the loop may be in another file
    slots += [(body.scope, *pair) for body in bodies for pair in body.roots.items()]
    if whole[0] == ".":
        return [(slot, node) for _, slot, node in slots if whole in slot]
    begin = f"^{scope}:{whole}"
    return [(s, n) for at, s, n in slots if s.startswith(whole if at == scope else begin)]


def heads_in_calls(
    calls_of: Mapping[int, list[Call]], loops: list[Loop], scope: int, name: str
) -> list[Node]:
    """What a variable is at the head of loops in functions that it is given to, and in its scope.

    calls_of: the calls of each scope
    """
    todo, seen = [(scope, name)], {(scope, name)}
    found: list[Node] = []
    while todo:
        at, slot = todo.pop()
        for call in calls_of.get(at, ()):
            for parameter, path in call.paths.items():
                inner = call.body.scope, parameter
                if path == slot and inner not in seen:
                    seen.add(inner)
                    todo.append(inner)
        found += [loop.heads[slot] for loop in loops if loop.scope == at and slot in loop.heads]
    return found


def _classes_of(tree: ast.Module, of_node: dict[int, Scope]) -> dict[str, Class]:
    found = {}
    for node in statements_of(tree.body, definitions=True):
        if not isinstance(node, ast.ClassDef):
            continue
        bases = [_last(base) for base in node.bases]
        one = found[node.name] = Class(node.name, bases)
        one.is_dataclass = any("dataclass" in ast.unparse(d) for d in node.decorator_list)
        stored = [part for part in ast.walk(node) if isinstance(part, ast.Name | ast.Attribute)]
        stored = [part for part in stored if isinstance(part.ctx, ast.Store)]
        one.attributes = {p.id if isinstance(p, ast.Name) else p.attr for p in stored}
        for part in node.body:
            if isinstance(part, Function):
                sets = any(ast.unparse(d) == f"{part.name}.setter" for d in part.decorator_list)
                (one.setters if sets else one.methods)[part.name] = of_node[id(part)]
            elif isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                one.fields.append(part.target.id)
    return found


def _last(node: ast.expr) -> str:
    if isinstance(node, ast.Subscript):
        return _last(node.value)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "?")
