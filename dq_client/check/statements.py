"""Statements: the order of a program, its conditions and loops, and what it defines."""

from __future__ import annotations

import ast

from dq_client.check import words as w
from dq_client.check.bindings import Bindings, kind_of_items
from dq_client.check.calls import VIEW
from dq_client.check.flow import Frame, Now, Value
from dq_client.check.given import Given, import_kinds, item_of
from dq_client.check.graph import Body, Node
from dq_client.check.program import Loop, Program
from dq_client.check.scopes import (
    Function,
    Scope,
    begins_iterations,
    rebound_in,
    rebuilds,
    scopes_of,
)
from dq_client.check.values import bound, is_collective


class Statements(Bindings):
    """Goes through the statements of one scope."""

    def run(self) -> Body:
        """The whole scope."""
        node = self.scope.node
        if isinstance(node, ast.Lambda):
            self._returns(self.value(node.body))
        else:
            self.block(node.body)
        self.end_function()
        return self.body

    def enter(self, scope: Scope, kinds: dict[str, str]) -> Body:
        """The body of a function, gone through now if it has not been."""
        known = self.program.bodies.get(scope.number)
        if known is not None:
            return known
        if scope.in_class and scope.parameters:
            kinds = {scope.parameters[0]: f"instance:{scope.in_class}"} | kinds
        return Statements(self.program, scope, kinds).run()

    def block(self, statements: list[ast.stmt]) -> None:
        """Statements up to one that ends the block."""
        control = self.control
        for statement in statements:
            if self.dead:
                break
            before = len(self.jumps)
            self.statement(statement)
            self.jumped(before)
        self.control = control

    def statement(self, node: ast.stmt) -> None:
        """One statement."""
        match node:
            case ast.Expr(value=ast.Call() as call):
                self.call(call, discarded=True)
            case ast.Expr():
                self.value(node.value)
            case ast.Assign():
                self.assign(node)
            case ast.AnnAssign():
                if node.value is not None:
                    self.give(node.target, self.value(node.value), node.lineno)
            case ast.AugAssign():
                self.augmented(node)
            case ast.If():
                self._if(node)
            case ast.For() | ast.AsyncFor() | ast.While():
                self._loop(node)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    value = self.value(item.context_expr)
                    if item.optional_vars is not None:
                        self.give(item.optional_vars, value, node.lineno)
                self.block(node.body)
            case ast.Try() | ast.TryStar():
                self._try(node)
            case ast.Match():
                self._match(node)
            case ast.Return():
                self._returns(self.value(node.value))
                self._leave(self.ends)
            case ast.Raise() | ast.Assert():
                parts = [p for p in ast.iter_child_nodes(node) if isinstance(p, ast.expr)]
                raised = [n for part in parts for n in self.value(part).nodes]
                self.sink(raised)
                if isinstance(node, ast.Raise):
                    self.program.caught.passed += raised
                    self._leave(None)
            case ast.Break():
                self.sink([])
                self._leave(self.frame.breaks)
            case ast.Continue():
                self._leave(self.frame.continues)
            case ast.Delete():
                for target in node.targets:
                    self.delete(target)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                self._define(node)
            case ast.Import() | ast.ImportFrom():
                for name, kind in import_kinds(node):
                    self.bind(self.slot(name), Node(kind=kind), node.lineno)

    # --- ways -------------------------------------------------------------------------------------

    def _leave(self, into: list[Now] | None) -> None:
        if into is not None:
            into.append(dict(self.now))
        if self.control is not None:
            self.jumps.append(self.control)
        self.dead = True

    def _returns(self, value: Value) -> None:
        result = self.body.result
        elements = [Node(passed=[each.node()], control=self.control) for each in value.elements]
        self.body.add_elements(elements, [each.kind for each in value.elements])
        result.passed.append(Node(passed=[value.node()], control=self.control))
        result.kind = result.kind or value.kind
        self.body.returns = (value.path, value.within)
        if value.view:
            self.body.exit[VIEW] = Node(value.view)
        if self.scope.parent is not None and self.frame.loop is not None:
            self.sink([])

    def _branches(self, branches: list[tuple[Node | None, list[ast.stmt]]]) -> None:
        """Several blocks, of which one runs."""
        before, control = self.now, self.control
        ways: list[Now | None] = []
        for condition, statements in branches:
            self.now, self.dead = dict(before), False
            self.control = condition or control
            self.block(statements)
            ways.append(None if self.dead else self.now)
        self.control = control
        met = self.meet(ways, self.frame)
        self.dead = met is None
        self.now = before if met is None else met

    def _if(self, node: ast.If) -> None:
        test = node.test
        is_and = isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And)
        parts = test.values if isinstance(test, ast.BoolOp) and is_and else [test]
        tested = [(part, self.value(part).nodes) for part in parts]
        condition, otherwise = self.condition_of(tested)
        otherwise.ordered = self.ordered(test)
        self._branches([(condition, node.body), (otherwise, node.orelse)])

    def _match(self, node: ast.Match) -> None:
        subject = self.value(node.subject)
        condition = self.condition(subject.nodes)
        for case in node.cases:
            for part in ast.walk(case.pattern):
                name = getattr(part, "name", None) or getattr(part, "rest", None)
                if isinstance(name, str):
                    self.bind(self.slot(name), Node(subject.nodes), node.lineno)
            self.value(case.guard)
        self._branches([*((condition, case.body) for case in node.cases), (condition, [])])

    def _try(self, node: ast.Try | ast.TryStar) -> None:
        before = dict(self.now)
        self.block(node.body)
        if not self.dead:
            self.block(node.orelse)
        ways = [None if self.dead else self.now]
        middle = self.meet([before, self.now], self.frame)
        for handler in node.handlers:
            self.now, self.dead = dict(middle or before), False
            if handler.name:
                caught = Node(passed=[self.program.caught])
                self.bind(self.slot(handler.name), caught, handler.lineno)
            self.block(handler.body)
            ways.append(None if self.dead else self.now)
        met = self.meet(ways, self.frame)
        self.dead = False
        self.now = met if met is not None else dict(middle or before)
        self.block(node.finalbody)
        self.dead = self.dead or met is None

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While) -> None:
        over = node.test if isinstance(node, ast.While) else node.iter
        source = Value() if isinstance(node, ast.While) else self.value(over)
        loop = Loop(
            self.scope.number,
            node.lineno,
            node.body[-1].end_lineno or node.lineno,
            over_iterations=begins_iterations(over),
        )
        self.program.loops.append(loop)
        if source.kind == w.GENERATOR and source.path:
            self.change(source, Node(source.nodes), node.lineno)
        control, outer, before, jumps = self.control, self.frame, self.now, len(self.jumps)
        self.frame, self.now = Frame(outer, before, loop), {}
        for name in rebound_in(node):  # the last iteration has left another object, perhaps
            self.aliases.pop(self.slot(name), None)
        condition: Node | None = None
        if isinstance(node, ast.While):
            tested = self.value(node.test)
            condition = self.condition(tested.nodes, self.ordered(node.test))
        elif not loop.over_iterations:
            condition = self.condition([] if is_collective(*node.body) else source.nodes)
            parts_of = (source, *source.parts)
            condition.length = any(each.path or each.within for each in parts_of)
        self.control = condition or self.control
        if not isinstance(node, ast.While):
            loop.items = items = item_of(source)
            items.varies = True
            within = source.path or source.within
            kind = kind_of_items(source)
            parts, view = source.parts, source.view
            given = Value([items], kind, passed=True, within=within, parts=parts, view=view)
            self.give(node.target, given, node.lineno)
        self.block(node.body)
        frame = self.frame
        self._close(frame, None if self.dead else self.now)
        if condition is not None:
            condition.computed += [j for j in self.jumps[jumps:] if j is not condition]
        self.control, self.frame, self.now, self.dead = control, outer, before, False
        self._after_loop(frame, is_while=isinstance(node, ast.While))
        self.block(node.orelse)
        if isinstance(over, ast.Constant) and over.value and not frame.breaks:
            self.dead = True  # an endless loop

    def _close(self, frame: Frame, now: Now | None) -> None:
        """Lead what an iteration has left back to the head of the loop."""
        last = self.meet([now, *frame.continues], frame)
        for way in (last, *frame.breaks):
            for slot in way or ():
                if not slot.endswith("*"):
                    self.version(slot, {}, frame)
        for slot, head in list(frame.memo.items()):
            if last is not None:
                left = self.version(slot, last, frame)
                if left is not head:
                    head.passed.append(left)
                    head.varies = True
                head.kind = head.kind or left.kind

    def _after_loop(self, frame: Frame, *, is_while: bool) -> None:
        others = {s for way in (*frame.breaks, frame.memo) for s in way if s.endswith("*")}
        for slot in others:
            self.now[slot] = Node()
        for slot, head in frame.memo.items():
            ways = {self.version(slot, way, frame): None for way in frame.breaks}
            ways.pop(head, None)
            if ways or head.varies:  # it was changed, not only read
                self.now[slot] = Node(passed=[head, *ways], kind=head.kind)
                self.now[slot].ends_loop = frame.loop is None or frame.loop.over_iterations
                self.now[slot].ends_for = not (self.now[slot].ends_loop or is_while)

    def _define(self, node: Function | ast.ClassDef) -> None:
        program = self.program
        if isinstance(node, ast.ClassDef):
            self.bind(self.slot(node.name), Node(kind=f"class:{node.name}"), node.lineno)
            for part in node.body:
                if isinstance(part, ast.Assign | ast.AnnAssign) and part.value is not None:
                    value = self.value(part.value)
                    for target in part.targets if isinstance(part, ast.Assign) else [part.target]:
                        if isinstance(target, ast.Name):
                            stored = bound(value)
                            stored.scope, stored.file_line = self.scope.number, part.lineno
                            program.attributes[target.id].append(stored)
                elif isinstance(part, Function):
                    self._defaults(part)
                    self._decorate(part)
                elif isinstance(part, ast.ClassDef):
                    self._define(part)
            return
        self._decorate(node)
        self._defaults(node)
        scope = program.of_node[id(node)]
        number = scope.number
        known = Node(self.captured(scope), kind=f"function:{number}")
        self.bind(self.slot(node.name), known, node.lineno)
        if rebuilds(node):
            self.known(program.scopes[number], None, Given([Value(kind=w.COMM)]), node.lineno)

    def _decorate(self, node: Function) -> None:
        """Call the decorators of a function, and note what those of the program make of it."""
        program = self.program
        for decorator in node.decorator_list:
            value = self.value(decorator)
            what, _, name = value.kind.partition(":")
            if what not in ("function", "class"):
                continue
            same = [
                str(number)
                for number, other in enumerate(program.scopes)
                for each in getattr(other.node, "decorator_list", ())
                if ast.dump(each) == ast.dump(decorator)
            ]
            given = Given([Value(kind=w.FUNCTIONS + ",".join(same))])
            if what == "class":
                made = self._make(name, given, node.lineno)
            else:
                made = self.known(program.scopes[int(name)], None, given, node.lineno)
            if made.kind.startswith(("function:", "instance:")):
                program.wrapped[program.of_node[id(node)].number].append(made.kind)


def program_of(tree: ast.Module, scopes: list[Scope] | None = None) -> Program:
    """Draw the graph of a file: the module as it runs, then the functions that it does not call."""
    program = Program(tree, scopes or scopes_of(tree))
    module = Statements(program, program.scopes[0], {})
    module.run()
    late = [s for s in program.scopes[1:] if s.number not in program.bodies]
    for scope in sorted(late, key=lambda s: s.name != "__init__"):
        if scope.number not in program.bodies:
            body = module.enter(scope, {})
            program.sinks.append(Node([body.result]))
    for drawn in program.seeded.values():
        if not drawn:
            drawn.append(Node(source=w.RANDOM))
    return program
