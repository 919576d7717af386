"""Expressions: which nodes of the graph their values are made of."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from dq_client.check import words as w
from dq_client.check.calls import Calls
from dq_client.check.flow import NOTHING, Value
from dq_client.check.given import Given, item_of
from dq_client.check.graph import Node
from dq_client.check.recurrence import SUMS
from dq_client.check.scopes import Comprehension, children, is_view, is_whole, rebuilds
from dq_client.check.turns import ORDERS, Quotient, turn_of

PROPERTIES = {"property", "cached_property", "functools.cached_property"}


LENGTHS = {"shape", "size", "ndim", "dtype"}  # of an array
PLAIN = Value(kind=w.PLAIN)  # a number, a text: nothing that could be changed in place


class Values(Calls):
    """Reads expressions."""

    def value(self, node: ast.expr | None) -> Value:
        """What an expression gives."""
        match node:
            case None:
                return NOTHING
            case ast.Constant():
                return NOTHING if node.value is None else PLAIN
            case ast.Name():
                path = self.path(node)
                slot = self.slot(node.id)
                found = self.get(slot)
                nodes = [found]
                view = self.views.get(slot, []) if path != slot or slot in self.members else []
                if found.index and self.control is not None:  # an item that is used here
                    nodes = [self.item([found], found.index)]
                    nodes[0].varies = found.varies
                if path != slot and found.kind != w.LOCAL:  # another name for the same object
                    nodes.append(self.get(path))
                    if view:
                        nodes[-1] = self.item(nodes[-1:], view)
                        nodes[-1].which = self.items.get(slot)
                return Value(nodes, found.kind, passed=True, path=path, view=view)
            case ast.Attribute():
                return self._attribute(node)
            case ast.Call():
                return self.call(node)
            case ast.Subscript():
                return self._subscript(node)
            case ast.BoolOp(op=ast.And()):
                return self._all_of(node.values)
            case ast.BoolOp():
                return self._one_of(node.values)
            case ast.IfExp():
                test = self.value(node.test)
                ways = self.condition_of([(node.test, test.nodes)])
                chosen = self._one_of([node.body, node.orelse], ways)
                if not test.nodes:
                    return chosen
                both = Node(test.nodes, passed=chosen.nodes, kind=chosen.kind)
                return Value([both], chosen.kind, passed=True)
            case ast.NamedExpr():
                value = self.value(node.value)
                self.bind(self.slot(node.target.id), bound(value), node.lineno)
                return value
            case ast.Lambda():
                self._defaults(node)
                scope = self.program.of_node[id(node)]
                return Value(self.captured(scope), f"function:{scope.number}")
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self._comprehension(node)
            case ast.Yield() | ast.YieldFrom():
                value = self.value(node.value)
                # Which items it gives depends on the condition, too.
                under = self.control.branches if self.control is not None else []
                self.body.result.computed += [*value.nodes, *under]
                return NOTHING
            case ast.Await() | ast.Starred():
                return self.value(node.value)
        values = [self.value(part) for part in _parts(node)]
        plain = isinstance(node, ast.JoinedStr | ast.Compare) or (
            isinstance(node, ast.BinOp | ast.UnaryOp) and all(v.kind == w.PLAIN for v in values)
        )
        nodes = [n for v in values for n in v.nodes]
        functions = [v.kind.partition(":")[2] for v in values if v.kind.startswith("function:")]
        if functions and isinstance(node, ast.Dict | ast.List):
            return Value(nodes, w.FUNCTIONS + ",".join(functions))
        if isinstance(node, ast.BinOp | ast.Compare):
            nodes = self._operation(node, [v.nodes for v in values])
        is_tuple = isinstance(node, ast.Tuple) and not any(
            isinstance(part, ast.Starred) for part in node.elts
        )
        return Value(nodes, w.PLAIN if plain else "", elements=tuple(values) if is_tuple else ())

    def _operation(self, node: ast.BinOp | ast.Compare, sides: list[list[Node]]) -> list[Node]:
        """Return what an operator gives. sides: its operands, without constants."""
        nodes = [each for side in sides for each in side]
        if isinstance(node, ast.BinOp) and isinstance(node.op, SUMS):
            self.program.operands[id(node)] = sides
        turn = turn_of(node, sides)
        if turn is not None:
            self.program.turns.append(turn)
            turn.result.truth = isinstance(node, ast.Compare)
            return [turn.result]
        if isinstance(node, ast.Compare):
            truth = Node(nodes)
            truth.truth = True
            sides_of_none = [node.left, *node.comparators]
            truth.length = isinstance(node.ops[0], ast.Is | ast.IsNot) and any(
                isinstance(side, ast.Constant) for side in sides_of_none
            )
            if isinstance(node.ops[0], ast.In | ast.NotIn):
                truth.index = sides[0] if sides else []
            return [truth]
        over = sides[0] if len(sides) > 1 else []
        by = [] if isinstance(node.right, ast.Constant) or not sides else sides[-1]
        # What @rs.on_resize computes is computed anew after each resize.
        if isinstance(node.op, ast.Div | ast.FloorDiv) and by and not rebuilds(self.scope.node):
            self.program.quotients.append(Quotient(node.lineno, over, by, Node(nodes)))
            return [self.program.quotients[-1].result]
        if isinstance(node.op, ast.Mod) and len(sides) > 1 and by:
            nodes = [Node(nodes)]
            nodes[0].divisor = by
        return nodes

    def _defaults(self, node: ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """The default values of a function, which are computed where it is defined."""
        number = self.program.of_node[id(node)].number
        given = node.args
        named = [*given.posonlyargs, *given.args]
        pairs = [*zip(named[len(named) - len(given.defaults) :], given.defaults, strict=True)]
        pairs += [(a, d) for a, d in zip(given.kwonlyargs, given.kw_defaults, strict=True) if d]
        for argument, default in pairs:
            self.program.defaults[(number, argument.arg)] = self.value(default).node()

    def _one_of(self, nodes: list[ast.expr], ways: Sequence[Node] = ()) -> Value:
        """The value of one of these; ways: under which conditions."""
        control, values = self.control, list[Value]()
        for number, node in enumerate(nodes):
            self.control = ways[number] if ways else control
            values.append(self.value(node))
        self.control = control
        kind = next((v.kind for v in values if v.kind), "")
        path = values[0].path if len({v.path for v in values}) == 1 else ""
        merged = [v.node() for v in values if v.nodes]
        return Value(merged, kind, passed=True, path=path)

    def _all_of(self, nodes: list[ast.expr]) -> Value:
        """`a and b`: b is read only where a is true."""
        control, values, tested = self.control, list[Value](), list[tuple[ast.expr, list[Node]]]()
        for node in nodes:
            if tested:
                self.control = self.condition_of(tested)[0]
            values.append(self.value(node))
            tested.append((node, values[-1].nodes))
        self.control = control
        kind = next((v.kind for v in values if v.kind), "")
        return Value([v.node() for v in values if v.nodes], kind, passed=True)

    def condition_of(self, tested: list[tuple[ast.expr, list[Node]]]) -> tuple[Node, Node]:
        """The conditions under which all of these are true, and under which they are not."""
        condition = self.condition(n for _, nodes in tested for n in nodes)
        condition.branches = [Node(nodes) for _, nodes in tested]
        pairs = zip(condition.branches, tested, strict=True)
        zeros = [branch for branch, (part, _) in pairs if is_zero_test(part)]
        otherwise = condition
        if zeros:
            condition = Node(control=otherwise)
            condition.on_root = zeros[0]
        return condition, otherwise

    def _attribute(self, node: ast.Attribute) -> Value:
        base, name = self.value(node.value), node.attr
        if name == "COMM_WORLD":
            return Value(kind=w.COMM)
        what, _, class_name = base.kind.partition(":")
        if what == "module":
            stored = self.program.attributes.get(name)
            return Value(list(stored or ()), f"module:{class_name}.{name}")
        found = self._of_kind(base, name)
        if found is not None:
            return found
        method = self.program.method(class_name, name) if what in ("instance", "class") else None
        if method is None and not base.kind:
            method = self.program.only_method(name, self.scope)
        if method is not None:
            decorators = {ast.unparse(d) for d in getattr(method.node, "decorator_list", ())}
            if decorators & PROPERTIES:
                return self.known(method, base, Given(), node.lineno)
            if what:
                self.program.escaped.add(class_name)
                return Value(kind=f"function:{method.number}")
        if (
            name in w.VIEWS
            and base.path
            and not base.kind
            and not self.program.attributes.get(name)
        ):
            return base.other_view(base.nodes)
        path, own = self.path(node), f"{self.path(node.value)}.{name}"
        if path and path != own:  # an attribute that is a view
            view = self.views.get(own, [])
            return Value([self.item([self.get(path)], view)], path=path, view=view)
        if name in LENGTHS and not what and not self.program.attributes.get(name):
            length = Node(base.nodes)
            length.length = True
            return Value([length], w.PLAIN)
        is_object = what in ("instance", "class") and not self.program.is_tuple(class_name)
        is_ours = is_object and self.program.is_closed(class_name)
        if not path:
            stored_here = self.program.attribute(name)
            read = Node([stored_here, *base.nodes])
            read.index, read.under = base.nodes, self.control
            return Value([read], stored_here.kind)
        stored_node = self.get(path)
        kind = stored_node.kind
        if class_name in self.program.escaped:
            read = Node(passed=[stored_node, self.program.attribute(name)], kind=kind)
            return Value([read], kind, passed=True, path=path)
        if is_ours or (path.count(".") == 1 and is_object):
            return Value([stored_node], kind, passed=True, path=path)
        read = Node(base.nodes, passed=[stored_node], kind=kind)
        read.index, read.under = base.nodes, self.control
        return Value([read], kind, passed=True, path=path)

    def _of_kind(self, base: Value, name: str) -> Value | None:
        """An attribute of a session, a communicator, declared data; None for other objects."""
        if base.kind == w.SESSION:
            if name in w.OF_SESSION:
                return Value([Node(source=w.OF_SESSION[name])], w.PLAIN)
            return Value(kind=w.GRID if name == "grid" else w.COMM if name in w.COMMS else "")
        if base.kind in (w.COMM, w.GRID):
            table = w.OF_COMM if base.kind == w.COMM else w.OF_GRID
            if name in w.COMMS:
                return Value(kind=w.COMM)
            bits = table.get(name)
            if not bits and base.kind == w.COMM:
                return Value(base.nodes, f"{w.METHOD}:{name}")
            if not bits:
                return Value(base.nodes)
            return Value([*base.nodes, Node(source=bits)], w.PLAIN)
        if base.kind in (w.OBJECT, w.VALUE):
            path = f"{base.path}.{name}" if base.path else ""
            if base.kind == w.VALUE or name in w.ALIKE_OBJECT:
                return Value(kind=w.VALUE if name == "value" else "", path=path)
            if name == "dims":
                return Value([Node(source=w.SIZE)])
            return Value([Node(source=w.PART)], w.LOCAL, path=path)
        if base.kind == w.LOCAL:
            return Value(base.nodes, w.LOCAL, path=base.path)
        ours = bool(self.program.attributes.get(name))
        if name == "rank" and not ours:
            return Value([*base.nodes, Node(source=w.RANK)])
        if name in ("local", "interior") and not ours and not base.kind:
            path = f"{base.path}.{name}" if base.path else ""
            return Value([*base.nodes, Node(source=w.PART)], w.LOCAL, path=path)
        if base.kind in (w.RNG, w.FILE, w.SHOW):
            return Value(base.nodes, base.kind, path=base.path)
        return None

    def _subscript(self, node: ast.Subscript) -> Value:
        base, index = self.value(node.value), self.value(node.slice)
        if base.kind == w.LOCAL:
            kind = w.LOCAL if is_view(node.slice) else ""
            return Value([*base.nodes, *index.nodes], kind, path=base.path if kind else "")
        text = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if isinstance(text, str) and ast.unparse(node.value).endswith("environ"):
            return self.of_environment(node.slice)
        container = base.within or self.members.get(base.path, "")
        held = [self.get(container)] if container else []
        of_item = base.view if container else []  # `x[i][j]` is an item of `x[i]`
        nodes = [self.item([*base.nodes, *held], [*of_item, *index.nodes])]
        nodes[0].which = item = self.which(node)
        last = self.get(base.path) if base.path else Node()
        if item and last.which and item.holds(last.which):
            nodes[0].computed += last.kept  # after `x[j, 0] = 1` much of `x[j]` is as it was
        self.program.indexed.append((Node(base.nodes), Node(index.nodes)))
        if base.kind.startswith(w.FUNCTIONS):
            return Value(nodes, base.kind, item=item)
        if base.copied and is_view(node.slice):
            return base.stretch(nodes, index.nodes)
        view = base.view if is_whole(node.slice) else [*base.view, *(index.nodes or [Node()])]
        if is_view(node.slice):
            return Value(nodes, path=base.path, within=base.within, view=view, item=item)
        return Value(nodes, within=base.path or base.within, view=view, item=item)

    def _comprehension(self, node: Comprehension) -> Value:
        renamed, control = self.renamed, self.control
        self.renamed = dict(renamed)
        nodes: list[Node] = []
        for generator in node.generators:
            source = self.value(generator.iter)
            nodes += source.nodes
            for target in ast.walk(generator.target):
                if isinstance(target, ast.Name):
                    slot = f"{target.id}%{node.lineno}:{node.col_offset}"
                    self.renamed[target.id] = slot
                    item = item_of(source)
                    item.varies = True
                    self.bind(slot, item, node.lineno)
            for test in generator.ifs:
                tested = self.value(test)
                nodes += tested.nodes
                if tested.nodes:
                    self.control = self.condition(tested.nodes)
                    self.control.branches = [Node(tested.nodes)]
        parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        nodes = [] if is_collective(*parts) else nodes
        if nodes:  # how often a call in it runs
            self.control = self.condition(nodes)
        for part in parts:
            nodes += self.value(part).nodes
        self.renamed, self.control = renamed, control
        return Value(nodes, w.GENERATOR if isinstance(node, ast.GeneratorExp) else "")

    def ordered(self, test: ast.expr) -> list[Node]:
        """What `<` and `>` compare in a condition."""
        return [
            n
            for each in ast.walk(test)
            if isinstance(each, ast.Compare) and any(isinstance(o, ORDERS) for o in each.ops)
            for part in (each.left, *each.comparators)
            if isinstance(part, ast.Name | ast.Attribute | ast.Subscript)
            for n in self.value(part).nodes
        ]


def is_collective(*parts: ast.AST) -> bool:
    """Whether all ranks must do this equally often: there is a collective call in it."""
    return any(
        isinstance(n, ast.Call)
        and isinstance(n.func, ast.Attribute)
        and n.func.attr.lower() in w.EQUAL
        for part in parts
        for n in ast.walk(part)
    )


def is_zero_test(test: ast.expr) -> bool:
    """Whether it is `x == 0` or `not x`."""
    match test:
        case ast.UnaryOp(op=ast.Not()):
            return True
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
            return any(isinstance(e, ast.Constant) and e.value == 0 for e in (left, right))
    return False


def bound(value: Value) -> Node:
    """A new version of a variable that is given a value."""
    if value.passed:
        return Node(passed=list(value.nodes), kind=value.kind)
    return Node(value.nodes, kind=value.kind)


def _parts(node: ast.AST | None) -> Iterator[ast.expr]:
    for part in children(node) if node is not None else ():
        if isinstance(part, ast.expr):
            yield part
        elif isinstance(part, ast.keyword | ast.FormattedValue):
            yield part.value
