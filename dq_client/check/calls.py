"""Calls: what comes back, what they change, and what they show to others.

A call of one of the program's functions leads into it. Of others, words.py knows those that matter;
any that is not known may use and change what it is given.
"""

from __future__ import annotations

import ast
from abc import abstractmethod
from dataclasses import replace

from dq_client.check import words as w
from dq_client.check.communication import source_of
from dq_client.check.flow import NOTHING, Value
from dq_client.check.given import Given, item_of, item_parts
from dq_client.check.graph import ELEMENT, Body, Call, Node
from dq_client.check.program import CONTAINED, Loop
from dq_client.check.random_numbers import RandomNumbers
from dq_client.check.recurrence import EXTREMES
from dq_client.check.scopes import Scope

VIEW = "@view"  # in what a function leaves: which part of a slot its result is


class Calls(RandomNumbers):
    """Reads calls."""

    @abstractmethod
    def value(self, node: ast.expr | None) -> Value:
        """What an expression gives."""

    @abstractmethod
    def enter(self, scope: Scope, kinds: dict[str, str]) -> Body:
        """The body of a function, gone through now if it has not been."""

    def call(self, node: ast.Call, *, discarded: bool = False) -> Value:
        """What a call gives. discarded: nobody takes it, so it was called for what it does."""
        func = node.func
        base = self.value(func.value) if isinstance(func, ast.Attribute) else NOTHING
        called = NOTHING if isinstance(func, ast.Attribute) else self.value(func)
        given = self._given(node, of_comm=base.kind == w.COMM or called.kind.startswith(w.METHOD))
        name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
        if name in EXTREMES and not given.rest:
            self.program.operands[id(node)] = [value.nodes for value in given.args]
        what, _, method = called.kind.partition(":")
        if what == w.METHOD:
            return self.of_comm(node, method, given)
        target, owner = self._target(func, base, called)
        if isinstance(target, Scope):
            back = self.known(target, owner, given, node.lineno)
            for each in (back, *back.elements):
                each.nodes[0].computed += called.nodes  # what a function remembers
            return self._wrapped(target, owner, given, back, node.lineno)
        if target:
            return self._make(target, given, node.lineno)
        # A function that is passed on may be called.
        items = Given([Value([item_of(v)]) for v in given.args[1:]] if name == "map" else [])
        more = [n for v in given.values for n in self.called_by_others(v, node.lineno, items)]
        if called.kind.startswith(w.FUNCTIONS):  # any of a table of functions
            for number in called.kind.removeprefix(w.FUNCTIONS).split(","):
                scope = self.program.scopes[int(number)]
                first = Value(kind=f"instance:{scope.in_class}") if scope.in_class else None
                more += self.known(scope, first, given, node.lineno).nodes
        module = base.kind.partition(":")[2] if base.kind.startswith(("module:", "import:")) else ""
        if called.kind.startswith("import:"):
            module, _, name = called.kind.removeprefix("import:").rpartition(".")
        if isinstance(func, ast.Attribute) and base.kind in ("", w.PLAIN):
            # Of a class of the program, or of a list.
            perhaps = self.program.only_method(name, self.scope)
            if perhaps is not None:
                more += self.known(perhaps, base, given, node.lineno).nodes
        if name not in w.SHOWS and name not in w.BUILTINS:
            self.sink(called.nodes)  # a variable that is called is used
        self.note_file(node, name, [*base.nodes, *given.nodes], module)
        result = self._special(node, name, base, given, module)
        if result is None:
            result = self._plain(node, name, base, given, module, discarded)
        if more:
            result = replace(result, nodes=[*result.nodes, *more], passed=False)
        out = given.keywords.get("out")
        if out is not None:
            inputs = [n for key, v in given.keywords.items() if key != "out" for n in v.nodes]
            computed = [*base.nodes, *(n for v in given.args for n in v.nodes), *inputs]
            self.change(out, Node(computed), node.lineno)
            if "where" not in given.keywords:
                whole = next(each.value for each in node.keywords if each.arg == "out")
                self.filled(whole, computed)
        return result

    # --- the program's own functions --------------------------------------------------------------

    def _wrapped(
        self, scope: Scope, owner: Value | None, given: Given, back: Value, line: int
    ) -> Value:
        """What a call gives, with what decorators of the function have made of it."""
        for kind in self.program.wrapped.get(scope.number, ()):
            what, _, name = kind.partition(":")
            first: Value | None = Value(kind=kind)
            called = self.program.method(name, "__call__")
            if what == "function":
                called, first = self.program.scopes[int(name)], owner
            if called is not None:
                back = Value(
                    [*back.nodes, *self.known(called, first, given, line).nodes], back.kind
                )
        return back

    def _given(self, node: ast.Call, *, of_comm: bool) -> Given:
        given = Given()
        for argument in node.args:
            value = self._argument(argument, of_comm=of_comm)
            if isinstance(argument, ast.Starred):
                given.rest += value.nodes
            else:
                given.args.append(value)
        for keyword in node.keywords:
            value = self._argument(keyword.value, of_comm=of_comm)
            if keyword.arg is None:
                given.rest += value.nodes
            else:
                given.keywords[keyword.arg] = value
        return given

    def _argument(self, node: ast.expr, *, of_comm: bool) -> Value:
        """An argument of a call. of_comm: of a communicator, for which `[x, counts]` is x."""
        value = self.value(node.value if isinstance(node, ast.Starred) else node)
        if isinstance(node, ast.Constant):
            return replace(value, is_text=isinstance(node.value, str))
        if not of_comm or not isinstance(node, ast.List | ast.Tuple) or not node.elts:
            return value
        first = self.value(node.elts[0])
        return Value(value.nodes, first.kind, path=first.path, within=first.within)

    def _target(
        self, func: ast.expr, base: Value, called: Value
    ) -> tuple[Scope | str | None, Value | None]:
        """The function of the program that is called, with its object; or the class."""
        kind = called.kind
        if isinstance(func, ast.Attribute):
            what, _, name = base.kind.partition(":")
            if what in ("instance", "class"):
                method = self.program.method(name, func.attr)
                if method is not None:
                    decorators = getattr(method.node, "decorator_list", ())
                    of_class = any(ast.unparse(d) == "classmethod" for d in decorators)
                    return method, base if what == "instance" or of_class else None
            elif base.kind in ("", w.PLAIN) and func.attr not in CONTAINED:
                method = self.program.only_method(func.attr, self.scope)
                if method is not None:
                    return method, base
            kind = self.get(path).kind if (path := self.path(func)) else ""
        what, _, name = kind.partition(":")
        if what == "function":
            return self.program.scopes[int(name)], None
        if what == "class":
            return name, None
        if what == "instance":
            method = self.program.method(name, "__call__")
            return method, called if method is not None else None
        return None, None

    def known(self, scope: Scope, owner: Value | None, given: Given, line: int) -> Value:
        """A call of a function of the program."""
        names = scope.parameters
        decorators = {ast.unparse(d) for d in getattr(scope.node, "decorator_list", ())}
        args = list(given.args)
        if "staticmethod" in decorators:
            owner = None
        if owner is not None or (scope.in_class and "classmethod" in decorators):
            args.insert(0, owner or Value())
        values = dict(zip(names, args, strict=False))
        values |= {k: v for k, v in given.keywords.items() if k in names}
        body = self.enter(scope, {n: v.kind for n, v in values.items() if v.kind != w.PLAIN})
        call = Call(body, self.scope.number, line)
        beyond = [n for v in args[len(names) :] for n in v.nodes] + given.rest
        beyond += [n for k, v in given.keywords.items() if k not in names for n in v.nodes]
        for name in [*body.roots, *(n for n in (*names, "@control") if n not in body.roots)]:
            if name in values:
                call.entry[name] = values[name].node()
            elif (scope.number, name) in self.program.defaults:
                call.entry[name] = self.program.defaults[(scope.number, name)]
            elif name == "@control" and self.control is not None:
                call.entry[name] = self.control
            elif "." not in name and not name.startswith("^"):
                call.entry[name] = Node(beyond)
        if scope.yields:
            body.result.kind = w.GENERATOR
        call.paths = {n: v.path for n, v in values.items() if v.path}
        call.texts = {n for n, v in values.items() if v.is_text}
        for slot in list(body.roots):
            if slot not in call.entry and (here := self.translated(slot, call)):
                call.entry[slot] = self.get(here)
        body.calls.append(call)
        self.program.calls.append(call)
        for slot in sorted(body.exit):  # objects before their attributes
            if here := self.translated(slot, call):
                changed, part = self._out_of(call, slot), values.get(slot)
                if part is not None and part.view:
                    changed.kept, changed.index = [self.get(here)], part.view
                    changed.sliced = True
                self.put(here, changed, line)
                if body.exit[slot].rebound and "." in here:
                    self.replaced(here, changed)
        for name, value in values.items():  # an object that stands in a container
            outs = [s for s in body.exit if value.within and s.startswith(f"{name}.")]
            if outs and not value.path:
                self.change(value, Node(self._out_of(call, slot) for slot in outs), line)
            if name in body.exit:  # a row of an array, perhaps
                self.change_item(value, Node([self._out_of(call, name)]), line)
        result = Node(kind=body.result.kind)
        result.call = call
        path, within = (self.translated(slot, call) if slot else "" for slot in body.returns)
        view = [self._out_of(call, VIEW)] if VIEW in body.exit else []
        elements = [self._out_of(call, f"{ELEMENT}{k}") for k in range(body.elements)]
        return Value(
            [result], result.kind, passed=True, path=path, within=within, view=view,
            elements=tuple(Value([each], each.kind, passed=True) for each in elements),
        )  # fmt: skip

    def _out_of(self, call: Call, slot: str) -> Node:
        node = Node(kind=call.body.exit[slot].kind)
        node.call, node.out = call, slot
        return node

    def _make(self, name: str, given: Given, line: int) -> Value:
        """A new object of a class of the file."""
        method = self.program.method(name, "__init__")
        made = Value(given.nodes, f"instance:{name}")
        if method is not None:
            self.known(method, Value(kind=made.kind), given, line)
            made.made = self.program.calls[-1]
            return made
        one = self.program.classes[name]
        values = dict(zip(one.fields, given.args, strict=False)) | given.keywords
        for attribute, value in values.items():
            node = value.node() if value.nodes else Node()
            stored = Node(passed=[node], control=self.control, kind=value.kind)
            stored.scope, stored.file_line = self.scope.number, line
            self.program.attributes[attribute].append(stored)
        return made

    def take_over(self, slot: str, value: Value, line: int) -> None:
        """The attributes of a new object that was given to a slot."""
        call = value.made
        if call is None or not call.body.scope:
            return
        first = self.program.scopes[call.body.scope].parameters[:1]
        for inner in list(call.body.exit):
            base, _, rest = inner.partition(".")
            if rest and [base] == first:
                self.put(f"{slot}.{rest}", self._out_of(call, inner), line)

    def called_by_others(
        self, value: Value, line: int, given: Given, *, in_loop: bool = False
    ) -> list[Node]:
        """Call a function of the program that is passed on, and return what it gives.

        given: its arguments, if they are known
        """
        what, _, number = value.kind.partition(":")
        if what != "function":
            return []
        scope = self.program.scopes[int(number)]
        if in_loop:
            loop = Loop(self.scope.number, line, line, over_iterations=True, calls=scope.number)
            self.program.loops.append(loop)
        owner = Value(kind=f"instance:{scope.in_class}") if scope.in_class else None
        result = self.known(scope, owner, given, line)
        if in_loop:  # the next call finds what this one has left
            self.known(scope, owner, given, line)
        self.sink(result.nodes)
        return result.nodes

    # --- what words.py knows ----------------------------------------------------------------------

    def _special(
        self, node: ast.Call, name: str, base: Value, given: Given, module: str
    ) -> Value | None:
        """Calls that matter for resizes; None for others."""
        if name == "session" and (not base.kind or module):
            return Value(kind=w.SESSION)
        if base.kind == w.SESSION:
            return self.of_session(node, name, given)
        if base.kind == w.COMM or (
            base.kind in ("", "module:MPI") and name in ("Get_rank", "Get_size")
        ):
            return self.of_comm(node, name, given)
        if base.kind == w.OBJECT:
            return self.of_object(name, base, given)
        if name == "getattr" and given.args and given.args[0].kind in (w.SESSION, w.COMM, w.GRID):
            return source_of(w.RANK | w.SIZE)
        if name in w.TIMES and (module or not base.nodes):
            return source_of(w.TIME)
        if name == "Get_processor_name":
            return source_of(w.RANK)
        if name == "getenv" or (name == "get" and "environ" in ast.unparse(node.func)):
            return self.of_environment(node.args[0] if node.args else None)
        if name in w.PROCESSES and (module or not base.nodes) and not self._is_ours(name):
            return source_of(w.IDENTITY if name == "id" else w.PROCESS)
        opens = name == "open" or (name == "Open" and module == "MPI.File")
        if opens or (base.kind == w.FILE and name.startswith("read")):
            return Value([Node(source=w.PROCESS)], w.FILE) if opens else NOTHING
        if name in ("StringIO", "BytesIO"):
            return Value([Node(given.nodes)], w.BUFFER)
        if name in w.MAKES_SHOW:
            return Value(given.nodes, w.SHOW)
        if name == "ThreadPoolExecutor":
            return Value(given.nodes, w.POOL)
        if name in w.MAKES_RNG:
            seeds = [Node(source=w.RANDOM)] if not node.args and not node.keywords else given.nodes
            made = Node(seeds)
            made.opaque = True
            return Value([made], w.RNG)
        if name in w.UNDEFINED and module:
            return Value([Node(given.nodes, source=w.EMPTY)])
        return self.random_numbers(node, name, base, given, module)

    # --- everything else --------------------------------------------------------------------------

    def _plain(
        self, node: ast.Call, name: str, base: Value, given: Given, module: str, discarded: bool
    ) -> Value:
        nodes = [*base.nodes, *given.nodes]
        if any(v.kind in (f"{w.METHOD}:Get_size", f"{w.METHOD}:Get_rank") for v in given.values):
            nodes.append(Node(source=w.RANK | w.SIZE))  # it may be called
        line = node.lineno
        if name == "dump":  # of json, pickle: what is in the file is a result
            self.sink(nodes)
            self.sink_objects(given.values)
            to = given.args[1] if len(given.args) > 1 else NOTHING
            return self.buffered(to, nodes, line, writes=True)
        if base.kind == w.BUFFER:
            return self.buffered(base, given.nodes, line, writes=name in w.SHOWS)
        to = given.keywords.get("file", NOTHING)
        if name == "print" and to.kind == w.BUFFER:
            return self.buffered(to, given.nodes, line, writes=True)
        if name in w.SHOWS or base.kind in (w.SHOW, w.FILE):
            return NOTHING
        if name == "next" and not module and given.args:
            self.change(given.args[0], Node(given.args[0].nodes), line)
            return Value(nodes)
        library = module.partition(".")[0] in w.LIBRARIES or self._in_library(node.func)
        if library and name in w.SAVES:
            self.sink(nodes)
            return NOTHING
        if library:
            return self._of_library(name, nodes, given, line)
        if not base.nodes and not module and name in w.BUILTINS and not self._is_ours(name):
            if name in w.VIEWS and given.args:
                return given.args[0].other_view(nodes)
            if name == "len" and nodes:
                nodes = [Node(nodes)]
                nodes[0].length = True
            if name in w.LISTS and given.args:
                return given.args[0].listed(nodes)
            plain = name in ("int", "float", "str", "len", "bool", "round", "complex", "hash")
            return Value(nodes, w.PLAIN if plain else "", parts=item_parts(name, given))
        if isinstance(node.func, ast.Attribute) and not module:
            found = self._method(node, name, base, given, nodes)
            if found is not None:
                return found
        self.sink(nodes)
        if name in w.READS_ALL:
            self.sink_objects(given.values)
        if discarded:
            for value in given.values:
                if value.path and value.nodes and value.kind != w.PLAIN:
                    self.change(value, Node(nodes), line)
        held = (base.path or base.within) and name not in w.OF_PATHS and base.kind != w.POOL
        if held and isinstance(node.func, ast.Attribute) and not module:
            self.change(base, Node(nodes, kind=base.kind), line)
        result = Node(nodes)
        result.opaque = True
        return Value([result])

    def _of_library(self, name: str, nodes: list[Node], given: Given, line: int) -> Value:
        """A function of numpy, or of a library like it."""
        first = given.args[0] if given.args else NOTHING
        if name == "take" and len(given.args) > 1:
            return Value([self.item(first.nodes, given.args[1].nodes)])
        self.changed_by_library(name, nodes, given, line)
        if name == "islice":
            return first.listed(nodes).stretch(nodes, Given(given.args[1:]).nodes)
        if name in w.SPLITS:  # a list of views
            return Value([Node(nodes)], within=first.path or first.within, view=first.view)
        if name in w.VIEWS:
            return first.other_view(nodes)
        return Value(nodes)

    def _method(
        self, node: ast.Call, name: str, base: Value, given: Given, nodes: list[Node]
    ) -> Value | None:
        """A method of a container or an array; None for others."""
        line = node.lineno
        if base.kind == w.LOCAL and name in w.READS:
            return Value(nodes, w.LOCAL, path=base.path)
        if name in w.READS:
            if name == "take" and given.args:
                return Value([self.item(base.nodes, given.args[0].nodes)])
            if name in w.VIEWS and base.path:
                return base.other_view(nodes)
            item = Value(nodes, within=base.path or base.within)
            if name == "get" and given.args:
                item.nodes = [self.item(nodes, given.args[0].nodes)]
                assert isinstance(node.func, ast.Attribute), "it is a method"
                item.nodes[0].which = self.which(ast.Subscript(node.func.value, node.args[0]))
            if name in ("get", "values"):
                return item
            return Value(nodes, parts=(Value(nodes), item) if name == "items" else ())
        if not (base.path or base.within) and name in w.GROWS | w.REORDERS | {"fill", "clear"}:
            return Value(nodes)
        if name in w.DROPS and given.args:
            left = Node(given.nodes, kept=[self.get(base.path)] if base.path else nodes)
            left.index, left.kind = given.args[0].nodes, base.kind
            self.change(base, left, line)
            return Value(nodes)
        if name in w.GROWS:
            self.change(base, Node(nodes, kind=base.kind), line)
            return Value(nodes)
        if name == "setdefault" and given.args:
            self.set_once(node, base, given)
            taken = [self.item(nodes, given.args[0].nodes)]
            return Value(taken, within=base.path or base.within)
        if name in w.REORDERS:
            self.reordered(base, given.nodes, line)
            return Value(nodes, within=base.path or base.within)
        if name in ("fill", "clear"):
            self.change(base, Node(given.nodes, kind=base.kind), line)
            assert isinstance(node.func, ast.Attribute), "it is a method"
            self.filled(node.func.value, given.nodes)
            return NOTHING
        return None
