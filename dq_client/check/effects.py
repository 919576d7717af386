"""What is read of a slot, what changes it in place, and what leaves the program's own variables."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dq_client.check import words as w
from dq_client.check.flow import NOTHING, Flow, Value
from dq_client.check.given import Given
from dq_client.check.graph import Item, Node
from dq_client.check.own_files import FileUse, file_is_written
from dq_client.check.scopes import is_view, is_whole


class Effects(Flow):
    """Reads and changes of what stands in a slot, or in a container."""

    def sink(self, nodes: list[Node]) -> None:
        """Note that these matter: they leave the program's own variables."""
        self.program.sinks.append(Node(nodes, control=self.control))

    def sink_objects(self, values: Iterable[Value]) -> None:
        """Note that all attributes matter of those that are objects of the file's classes."""
        for value in values:
            what, _, name = value.kind.partition(":")
            if what == "instance":
                names = sorted(self.program.attributes_of(name))
                self.sink([self.program.attribute(each) for each in names])

    def of_environment(self, name: ast.expr | None) -> Value:
        """Return a variable of the environment: what a starter of ranks or the program has set."""
        text = getattr(name, "value", None)
        bits = w.of_environment(text) if isinstance(text, str) else 0
        return Value([Node(passed=self.program.environment, source=bits)])

    def note_file(self, node: ast.Call, name: str, nodes: list[Node], module: str) -> None:
        """Note a call that reads or writes a file. nodes: what its name is made of, and more."""
        writes = file_is_written(node, name, of_module=bool(module))
        if writes is not None:
            use = FileUse(self.scope.number, node.lineno, writes, nodes, self.control)
            self.program.files.append(use)

    def item(self, container: list[Node], index: list[Node]) -> Node:
        """One that is read."""
        item = Node([*container, *index])
        item.index, item.under = index, self.control
        return item

    def contents(self, value: Value) -> list[Node]:
        """What the attributes of an object are that stands in a variable."""
        if not value.kind.startswith("instance:") or not value.path:
            return []
        return [node for slot, node in self.now.items() if slot.startswith(f"{value.path}.")]

    def which(self, node: ast.Subscript) -> Item | None:
        """An item as it is written; None: of a view whose place is not known."""
        indices: list[ast.expr] = []
        part: ast.expr = node
        while isinstance(part, ast.Subscript):
            indices += [] if is_whole(part.slice) else [part.slice]
            part = part.value
        slot = self.slot(part.id) if isinstance(part, ast.Name) else self.path(part)
        split = [e for i in indices for e in (i.elts if isinstance(i, ast.Tuple) else [i])]
        names = [n.id for each in split for n in ast.walk(each) if isinstance(n, ast.Name)]
        versions = [self.get(self.slot(name)) for name in names]
        if not slot or self.alias(slot) or slot in self.members:
            view = self.items.get(slot)
            if view is None and slot in self.members and isinstance(part, ast.Name):
                view = Item([part], (self.get(slot),), is_range=False)  # `for row in rows:`
            if view is None:
                return None
            indices, versions = [*indices, *view.indices], [*versions, *view.versions]
        return Item(indices, tuple(versions), is_view(node.slice))

    def change(self, value: Value, node: Node, line: int, inside: tuple[str, ...] = ()) -> None:
        """What stands in a slot, or in a container, was changed in place.

        inside: containers, one in the other, whose change this is a part of
        """
        container = value.within or self.members.get(value.path, "")
        if container and container not in inside:  # `node = node[key]` is an item of itself
            item = Node(node.computed, passed=node.passed, kept=[*node.kept, self.get(container)])
            item.received, item.which = node.received, node.which
            item.index = value.view or next((n.index for n in value.nodes if n.index), None)
            self.change(Value(path=container), item, line, (*inside, container))
        if not value.path:
            return
        last = value.path.rpartition(".")[2] if "." in value.path else ""
        if last in w.DECLARED_PARTS or value.kind in (w.LOCAL, w.OBJECT, w.VALUE):
            self.sink([*node.computed, *node.passed])
            self.program.data_changes.append(Node(control=self.control))
            return
        node.kind = node.kind or value.kind
        if value.view and not container:  # the rest stays as it is
            node.kept = node.kept or [self.get(value.path)]
            node.index, node.sliced = [*value.view, *(node.index or ())], True
        self.put(value.path, node, line)
        base = value.path.rpartition(".")[0]
        if base and not self.is_ours_alone(base):
            self.sink([node])

    def changes_value(self, value: Value, line: int) -> None:
        """A value of the session, which must be the same on all ranks, is given another one."""
        node = Node(value.nodes, control=self.control)
        node.scope, node.file_line = self.scope.number, line
        self.program.value_changes.append(node)

    def buffered(self, buffer: Value, nodes: list[Node], line: int, *, writes: bool) -> Value:
        """Return what is read from a file in memory; `writes`: change it instead."""
        if writes and buffer.kind == w.BUFFER:
            self.change(buffer, Node([*buffer.nodes, *nodes], kind=w.BUFFER), line)
        return NOTHING if writes else Value(buffer.nodes)

    def change_item(self, value: Value, node: Node, line: int) -> None:
        """What stands in a container was changed in place, if it does, and is no number."""
        container = value.within or self.members.get(value.path, "")
        if container and value.kind != w.PLAIN:
            self.change(Value(value.nodes, within=container, view=value.view), node, line)

    def reordered(self, value: Value, nodes: list[Node], line: int) -> None:
        """What stands in a slot was sorted, or the like: a row of a table goes on from what it was.

        nodes: what else that is made of, as a key
        """
        chosen = any(node.computed or node.passed or node.source for node in value.view)
        is_item = chosen or value.path in self.members  # not `d["a"]`, the same one each time
        old = value.nodes if is_item else []
        change = Node([*nodes, *old], kept=value.nodes, kind=value.kind)
        change.reorders = True
        self.change(value, change, line)

    def set_once(self, node: ast.Call, base: Value, given: Given) -> None:
        """`d.setdefault(key, value)`: an item is set where there is none."""
        control, asked = self.control, Node(base.nodes)
        self.control = self.condition([asked])
        self.control.branches = [asked]
        change = Node(given.nodes, kept=base.nodes, kind=base.kind)
        change.index = given.args[0].nodes if given.args else []
        assert isinstance(node.func, ast.Attribute), "it is a method"
        if node.args:
            change.which = self.which(ast.Subscript(node.func.value, node.args[0]))
        self.change(base, change, node.lineno)
        self.control = control

    def changed_by_library(self, name: str, nodes: list[Node], given: Given, line: int) -> None:
        """Note what a function of numpy, or of a library like it, changes of its arguments."""
        if name in w.CHANGES_FIRST and given.args:
            old = [] if name == "copyto" else given.args[0].nodes
            others = Given(given.args[1:], given.keywords)
            self.change(given.args[0], Node([*old, *others.nodes]), line)
        operands = 1 if name in w.OF_ONE else 2 if name in w.OF_TWO else len(given.args)
        if len(given.args) > operands:  # `np.add(a, b, a)`
            self.change(given.args[operands], Node(nodes), line)

    def filled(self, target: ast.expr, nodes: list[Node]) -> None:
        """A view has been overwritten as a whole: what its variable had before is gone.

        nodes: what it has now
        """
        if not isinstance(target, ast.Name):
            return
        slot = self.slot(target.id)
        if slot in self.members:
            self.now[slot] = Node(nodes, kind=self.get(slot).kind)
        elif path := self.alias(slot):
            kind = self.get(slot).kind
            if kind != w.LOCAL:  # else it is the rank's part of the data as before
                self.now[slot] = self.item([self.get(path)], self.views.get(slot, []))
                self.now[slot].kind = kind

    def is_ours_alone(self, slot: str) -> bool:
        """Whether the object in a slot is one of a class that the file alone decides on."""
        kind = self.get(slot).kind
        what, _, name = kind.partition(":")
        return what in ("instance", "class") and self.program.is_closed(name)

    def root_path(self, node: ast.expr) -> str:
        """The slot that an object stands in, some items and attributes deep: x of `x[0].y[1]`."""
        while isinstance(node, ast.Subscript | ast.Attribute):
            node = node.value
        return self.path(node) if isinstance(node, ast.Name) else ""

    def container_path(self, node: ast.expr) -> str:
        """The slot of the container that an item is deep in: `self.x` of `self.x[0]["k"]`."""
        part = node
        while isinstance(part, ast.Subscript):
            part = part.value
        return self.path(part) or self.root_path(part)

    def _is_ours(self, name: str) -> bool:
        return bool(self.kind_of_name(self.scope.owner(name).number, name))

    def _in_library(self, func: ast.expr) -> bool:
        while isinstance(func, ast.Attribute):
            func = func.value
        if not isinstance(func, ast.Name):
            return False
        kind = self.get(self.slot(func.id)).kind
        return kind.startswith("module:") and kind[7:].partition(".")[0] in w.LIBRARIES
