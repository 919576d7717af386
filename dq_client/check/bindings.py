"""What statements bind: variables, attributes and items get another value, or go."""

from __future__ import annotations

import ast

from dq_client.check import recurrence
from dq_client.check import words as w
from dq_client.check.flow import Value
from dq_client.check.given import Given
from dq_client.check.graph import Node
from dq_client.check.scopes import is_view, is_whole
from dq_client.check.values import Values, bound


class Bindings(Values):
    """Reads assignments and `del`."""

    def assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            if isinstance(target, ast.Tuple | ast.List):
                self._unpack(target, node.value, node.lineno)
        targets = [t for t in node.targets if not isinstance(t, ast.Tuple | ast.List)]
        value = self.value(node.value) if targets else Value()
        for target in targets:
            self.give(target, value, node.lineno, source=node.value)

    def _unpack(self, target: ast.Tuple | ast.List, source: ast.expr, line: int) -> None:
        """`a, b = x, y`: each its own."""
        theirs = source.elts if isinstance(source, ast.Tuple | ast.List) else []
        has_star = any(isinstance(e, ast.Starred) for e in (*theirs, *target.elts))
        if len(theirs) == len(target.elts) and not has_star:
            values = [self.value(part) for part in theirs]
            for each, its, part in zip(target.elts, values, theirs, strict=True):
                self.give(each, its, line, source=part)
            return
        value = self.value(source)
        if len(value.elements) == len(target.elts) and not has_star:
            for each, its in zip(target.elts, value.elements, strict=True):
                self.give(each, its, line)
            return
        whole = Value(value.nodes, kind_of_items(value), parts=value.parts)
        self.give(target, whole, line)

    def give(
        self, target: ast.expr, value: Value, line: int, *, source: ast.expr | None = None
    ) -> None:
        match target:
            case ast.Name():
                slot, node = self.slot(target.id), self._assigned(target, value, source)
                node.computed += self.contents(value)
                self.bind(slot, node, line)
                self.items[slot] = value.item
                if value.within and not value.copied:
                    self.members[slot], self.views[slot] = value.within, value.view
                if source is not None:
                    self.name_also(slot, value)
                self.take_over(slot, value, line)
            case ast.Tuple() | ast.List():
                whole = Value(value.nodes, value.kind, within=value.within)
                known = len(value.parts) == len(target.elts)
                parts = value.parts if known else [whole] * len(target.elts)
                for each, part in zip(target.elts, parts, strict=True):
                    self.give(each, part, line)
            case ast.Starred():
                self.give(target.value, Value(value.nodes), line)
            case ast.Attribute():
                self._store_attribute(target, value, line, source)
            case ast.Subscript():
                added = recurrence.added(target, source, self.program.operands)
                self._store_item(target, value.nodes, line, added, assigned=source is not None)

    def _assigned(self, target: ast.expr, value: Value, source: ast.expr | None) -> Node:
        """A new version, with what the assignment adds to the last one."""
        node = bound(value)
        node.assigned = source is not None
        node.single = _makes_single(source)
        node.added = recurrence.added(target, source, self.program.operands)
        return node

    def _store_attribute(
        self,
        target: ast.Attribute,
        value: Value,
        line: int,
        source: ast.expr | None = None,
        *,
        added: list[Node] | None = None,
    ) -> None:
        base = self.value(target.value)
        if target.attr in w.DECLARED_PARTS and not base.kind.startswith("instance:"):
            self.sink(value.nodes)
            if base.kind == w.VALUE:
                self.changes_value(value, line)
            return
        what, _, class_name = base.kind.partition(":")
        setter = self.program.setter(class_name, target.attr) if what == "instance" else None
        if setter is not None:
            self.known(setter, base, Given([value]), line)
            return
        node = self._assigned(target, value, source)
        if source is None:
            node.assigned, node.added = True, added
        node.computed += self.contents(value)
        node.index = base.nodes
        path = self.path(target)
        if path:
            self.bind(path, node, line)
            if value.view:
                self.name_also(path, value)
            self.take_over(path, value, line)
            owner = path.rpartition(".")[0]
        else:
            node.control, node.scope, node.file_line = self.control, self.scope.number, line
            self.program.attributes[target.attr].append(node)
            owner = self.root_path(target.value)
            if owner:
                self.put(owner, Node(value.nodes, kept=[self.get(owner)]), line)
        if not owner or not (self.is_ours_alone(owner) or self._is_self(owner)):
            self.sink([node])

    def _is_self(self, slot: str) -> bool:
        """Whether it is the object of a method of a class that is the file's alone."""
        scope = self.scope
        is_first = scope.parameters[:1] == [slot.lstrip("^").rpartition(":")[2]]
        return bool(scope.in_class) and is_first and self.program.is_closed(scope.in_class)

    def _store_item(
        self,
        target: ast.Subscript,
        nodes: list[Node],
        line: int,
        added: list[Node] | None = None,
        *,
        assigned: bool = False,
    ) -> None:
        base, index = self.value(target.value), self.value(target.slice)
        if ast.unparse(target.value).endswith("environ"):
            self.program.environment += nodes
        path = base.path or self.container_path(target.value)
        where = Value(base.nodes, base.kind, path=path, view=base.view)
        if not where.path:
            self.sink(nodes)
            return
        is_all = isinstance(target.slice, ast.Constant) and _is_single(self.get(where.path))
        whole = is_whole(target.slice) or is_all
        named = base.path and isinstance(target.value, ast.Name | ast.Attribute)
        old = [] if whole and named and not base.view else [self.get(where.path)]
        change = Node([*nodes, *index.nodes], kept=old, kind=base.kind)
        change.index, change.which = index.nodes, self.which(target)
        change.sliced = is_view(target.slice) and not whole
        change.assigned, change.added = assigned, added
        self.change(where, change, line)
        self.filled(target.value if whole else target, nodes)
        if not whole and isinstance(target.value, ast.Name):
            self._also_changed(self.slot(target.value.id), change)

    def _also_changed(self, slot: str, change: Node) -> None:
        """A variable that is a view of what was changed is changed, too."""
        if not self.alias(slot):
            return
        last = self.get(slot)
        view = Node(change.computed, kept=[last], kind=last.kind)
        view.index, view.which, view.sliced = change.index, change.which, change.sliced
        view.scope, view.file_line, view.control = change.scope, change.file_line, self.control
        self.now[slot] = view

    def augmented(self, node: ast.AugAssign) -> None:
        value = self.value(node.value)
        target = node.target
        old = self.value(target)
        is_sum = isinstance(node.op, recurrence.SUMS) and not recurrence.is_text(node.value)
        added = value.nodes if is_sum else None
        if isinstance(target, ast.Subscript):
            nodes = [*old.nodes, *value.nodes]
            self._store_item(target, nodes, node.lineno, added, assigned=True)
            return
        new = Value([*old.nodes, *value.nodes], old.kind, path=old.path, view=old.view)
        if isinstance(target, ast.Attribute):
            if old.kind in (w.LOCAL, w.VALUE):
                self.sink(value.nodes)
                if self.value(target.value).kind == w.VALUE:  # not of rs.local_state
                    self.changes_value(value, node.lineno)
            elif old.view and old.path:
                self.change(old, Node(new.nodes, kind=old.kind), node.lineno)
            else:
                self._store_attribute(target, Value(new.nodes, old.kind), node.lineno, added=added)
        elif old.kind == w.LOCAL:
            self.sink(value.nodes)
        else:
            slot, version = self.slot(target.id), Node(new.nodes, kind=old.kind)
            version.assigned, version.added = True, added
            self.put(slot, version, node.lineno)
            if slot in self.members and old.kind != w.PLAIN:  # an array of a list, perhaps
                where = Value(within=self.members[slot], view=old.view)
                self.change(where, Node(new.nodes), node.lineno)
            if old.kind != w.PLAIN and old.path and old.path != slot:
                self.change(old, Node(new.nodes, kind=old.kind), node.lineno)

    def delete(self, target: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.bind(self.slot(target.id), Node(), target.lineno)
        elif isinstance(target, ast.Subscript):
            nodes = self.value(target).nodes
            self._store_item(target, nodes, target.lineno)


def _makes_single(source: ast.expr | None) -> bool:
    """Whether it makes an array of one number, as `np.zeros(1)`."""
    match source:
        case ast.Call(func=ast.Attribute(attr="zeros" | "empty" | "ones"), args=[size, *_]):
            return ast.unparse(size) in ("1", "(1,)")
    return False


def _is_single(version: Node) -> bool:
    """Whether a variable is such an array, in any case."""
    return version.single or (bool(version.passed) and all(map(_is_single, version.passed)))


def kind_of_items(source: Value) -> str:
    """Items of what was drawn or shown have no kind of their own."""
    return source.kind if source.kind == w.LOCAL else ""
