"""Plain variables that one turn of a loop leaves for the next, as in `count += 1`.

A rank that joins has run the program only up to the loop: there such a variable is what it was
before the first turn. Found are names that a turn may read before it has bound them, and binds; so
nothing is said of what a turn computes anew. A history that grows (`losses.append(...)`) is the
same in another form. Names are plain ones, attributes (`self.t += dt`) and items (`state["t"]`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from dq_client.check.names import dotted

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
GROWS = {"append", "extend", "insert", "add", "appendleft"}
# What each rank may have for itself: it does not enter the result.
CLOCKS = {"time", "perf_counter", "monotonic", "process_time", "Wtime", "now", "time_ns"}
SHOWS = {"print", "log", "debug", "info", "warning", "set_description", "set_postfix"}
PURE = {"min", "max", "abs", "sum", "len", "int", "float", "round"}
OF_DECLARED = {"local", "value", "interior"}  # moves with its object


def carried(loop: ast.For, around: ast.AST) -> list[tuple[str, int]]:
    """The names that turns of this loop leave for one another, each with the line that binds it.

    around: the function, or the module, that the loop is in
    """
    turn = Turn(kept_by(around))
    turn.bind(loop.target)
    turn.body(loop.body)
    bound_before = _plain_lists(loop, around) - turn.kept
    found = {name: line for name, line in turn.bound.items() if name in turn.read_first}
    found |= {name: line for name, line in turn.grown.items() if name in bound_before}
    times = times_in(around)
    return sorted((name, line) for name, line in found.items() if name not in times)


def feeds(body: list[ast.stmt], place: str) -> bool:
    """Whether what statements do depends on it: not only its own next value, or what is printed.

    Nor what each process does once: `if first: …; first = False`, `if plan is None: plan = …`.
    """
    bound = [once for statement in body for once in _bindings(statement, place)]
    if bound and all(bound):
        return False
    return any(_depends(statement, place) for statement in body)


def _bindings(node: ast.AST, place: str, *, once: bool = False) -> Iterator[bool]:
    """For each place where it is bound: whether only its own value leads there."""
    if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
        if not isinstance(node.ctx, ast.Load) and (place_of(node) or dotted(node)) == place:
            yield once
    elif isinstance(node, ast.Call):
        name, _, method = dotted(node.func).rpartition(".")
        if name == place and method in GROWS:
            yield once
    elif isinstance(node, ast.If):
        names = {n.id for n in ast.walk(node.test) if isinstance(n, ast.Name)}
        once = once or names == {base_of(place)}
    for part in ast.iter_child_nodes(node):
        yield from _bindings(part, place, once=once)


def _depends(node: ast.AST, place: str) -> bool:
    if isinstance(node, ast.stmt) and _is_own(node, place):
        return False
    match node:
        case ast.Name() | ast.Attribute() | ast.Subscript():
            loads = isinstance(node.ctx, ast.Load)
            if loads and (place_of(node) or dotted(node)) == place:
                return True
        case ast.Call() if base_of(place) != place:  # a method, or a function that gets the object
            given = (node.func, *node.args, *(keyword.value for keyword in node.keywords))
            if any(base_of(dotted(part)) == base_of(place) for part in given):
                return True
    return any(_depends(part, place) for part in ast.iter_child_nodes(node))


def _is_own(node: ast.stmt, place: str) -> bool:
    """Whether a statement only gives it its next value, or shows something."""
    match node:
        case ast.Assign() | ast.AugAssign():
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any((place_of(target) or dotted(target)) != place for target in targets):
                return False
            return not any(_given(call, place) for call in ast.walk(node))
        case ast.Expr(value=ast.Call() as call):
            name, _, method = dotted(call.func).rpartition(".")
            return method in SHOWS or (name == place and method in GROWS)
        case ast.If():
            return all(_is_own(part, place) for part in (*node.body, *node.orelse))
    return isinstance(node, ast.Pass)


def _given(call: ast.AST, place: str) -> bool:
    """Whether it is a call that gets it, and may do anything with it."""
    if not isinstance(call, ast.Call) or dotted(call.func) in PURE:
        return False
    given = (*call.args, *(keyword.value for keyword in call.keywords))
    return any(_depends(argument, place) for argument in given)


class Turn:
    """What happens to names in one turn, in order. kept: those of rs.keep."""

    def __init__(self, kept: set[str]) -> None:
        self.kept = kept
        self.certain: set[str] = set()  # bound in this turn, whichever way it went
        self.read_first: set[str] = set()
        self.bound: dict[str, int] = {}
        self.grown: dict[str, int] = {}

    def body(self, statements: Iterable[ast.stmt]) -> None:
        for statement in statements:
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign() | ast.AnnAssign():
                if node.value is not None:
                    self.read(node.value)
                    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                        self.bind(target)
            case ast.AugAssign():
                self._name(node.target)
                self.read(node.value)
                self.bind(node.target)
                if dotted(node.target) in self.kept:  # which it changes in place
                    self.read_first.discard(dotted(node.target))
            case ast.If():
                self.read(node.test)
                self._either(node.body, node.orelse)
            case ast.For() | ast.AsyncFor():
                self.read(node.iter)
                self._perhaps(node.target, node.body)
                self.body(node.orelse)
            case ast.While():
                self.read(node.test)
                self._perhaps(None, node.body)
                self.body(node.orelse)
            case ast.Try():
                self._perhaps(None, node.body)
                for handler in node.handlers:
                    self._perhaps(None, handler.body)
                self._perhaps(None, node.orelse)
                self.body(node.finalbody)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    self.read(item.context_expr)
                    if item.optional_vars is not None:
                        self.bind(item.optional_vars)
                self.body(node.body)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                self.certain.add(node.name)
            case _:
                self.read(node)

    def bind(self, target: ast.expr) -> None:
        """The names of an assignment's target; what else it reads (`x[i] = ...`)."""
        if isinstance(target, ast.Name):
            self.bound.setdefault(target.id, target.lineno)
            self.certain.add(target.id)
        elif isinstance(target, ast.Tuple | ast.List):
            for part in target.elts:
                self.bind(part)
        elif isinstance(target, ast.Starred):
            self.bind(target.value)
        else:
            for inside in ast.iter_child_nodes(target):
                self.read(inside)
            if place := place_of(target):
                self.bound.setdefault(place, target.lineno)
                self.certain.add(place)

    def read(self, node: ast.AST) -> None:
        """The names that an expression reads."""
        if isinstance(node, Function):
            return  # when it is called is not known
        if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            own = {n.id for g in node.generators for n in ast.walk(g.target)
                   if isinstance(n, ast.Name)}  # fmt: skip
            inside = Turn(self.kept)
            inside.certain = self.certain | own
            for part in ast.iter_child_nodes(node):
                inside.read(part)
            self.read_first |= inside.read_first - own
            return
        self._name(node)
        if isinstance(node, ast.Call):
            self._grows(node)
        for part in ast.iter_child_nodes(node):
            self.read(part)
        if isinstance(node, ast.NamedExpr):
            self.bind(node.target)

    def _name(self, node: ast.AST) -> None:
        if isinstance(node, ast.Name) and node.id not in self.certain:
            self.read_first.add(node.id)
        elif isinstance(node, ast.Attribute | ast.Subscript):
            place = place_of(node)
            known = {place, base_of(place)} & self.certain or base_of(place) in self.kept
            if place and not known:
                self.read_first.add(place)

    def _grows(self, call: ast.Call) -> None:
        """`name.append(...)` of what was made before this turn."""
        method = call.func
        if not isinstance(method, ast.Attribute) or method.attr not in GROWS:
            return
        if isinstance(method.value, ast.Name) and method.value.id not in self.certain:
            self.grown.setdefault(method.value.id, call.lineno)

    def _either(self, one: list[ast.stmt], other: list[ast.stmt]) -> None:
        before = set(self.certain)
        self.body(one)
        after = None if _leaves(one) else self.certain
        self.certain = set(before)
        self.body(other)
        otherwise = None if _leaves(other) else self.certain
        if after is not None and otherwise is not None:
            self.certain = after & otherwise
        else:
            self.certain = after or otherwise or before

    def _perhaps(self, target: ast.expr | None, body: list[ast.stmt]) -> None:
        before = set(self.certain)
        if target is not None:
            self.bind(target)
        self.body(body)
        self.certain = before


def _leaves(statements: list[ast.stmt]) -> bool:
    return any(isinstance(s, ast.Continue | ast.Break | ast.Return | ast.Raise) for s in statements)


def _plain_lists(loop: ast.For, around: ast.AST) -> set[str]:
    """The names that are given an empty list, set or deque before the loop."""
    found = set()
    for node in ast.walk(around):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.lineno < loop.lineno:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if node.value is not None and _is_empty(node.value):
                found |= {dotted(target) for target in targets}
    return found


def kept_by(around: ast.AST) -> set[str]:
    """The names given to rs.keep, and those that what it is given was made of."""
    kept = {
        dotted(keyword.value)
        for node in ast.walk(around)
        if isinstance(node, ast.Call) and dotted(node.func).rpartition(".")[2] == "keep"
        for keyword in node.keywords
    }
    for node in ast.walk(around):
        if isinstance(node, ast.Assign):
            names = {n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)}
            if names & kept:
                kept = kept | {n.id for n in ast.walk(node.value) if isinstance(n, ast.Name)}
    return kept


def _is_empty(value: ast.expr) -> bool:
    if isinstance(value, ast.List):
        return not value.elts
    makes = isinstance(value, ast.Call) and dotted(value.func).rpartition(".")[2]
    return makes in ("list", "set", "deque")


def place_of(node: ast.expr) -> str:
    """What is bound by `self.t = ...` or `state["t"] = ...`; empty: nothing that has a name."""
    if isinstance(node, ast.Attribute) and node.attr not in OF_DECLARED:
        return dotted(node)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        base = dotted(node.value)
        return f"{base}[{node.slice.value!r}]" if base and isinstance(node.slice.value, str) else ""
    return ""


def base_of(place: str) -> str:
    """The plain name in it."""
    return place.partition(".")[0].partition("[")[0]


def times_in(around: ast.AST) -> set[str]:
    """The names that stand for times, and for what is computed from them."""
    given: list[tuple[set[str], ast.expr]] = []
    for node in ast.walk(around):
        if isinstance(node, ast.Assign | ast.AugAssign) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                for each, value in _pairs(target, node.value):
                    given.append(({place_of(each) or dotted(each)} - {""}, value))
        elif isinstance(node, ast.Call) and node.args:  # took_s.append(...)
            name, _, method = dotted(node.func).rpartition(".")
            if name and method in GROWS:
                given.append(({name}, node.args[-1]))
    found: set[str] = set()
    while more := {n for names, value in given if _is_time(value, found) for n in names} - found:
        found |= more
    return found


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What is given to what: `a, b = x, y` are two assignments."""
    if isinstance(target, ast.Tuple | ast.List):
        if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
            for each, its in zip(target.elts, value.elts, strict=True):
                yield from _pairs(each, its)
        return
    yield target, value


def _is_time(value: ast.expr, times: set[str]) -> bool:
    for node in ast.walk(value):
        if isinstance(node, ast.Call) and dotted(node.func).rpartition(".")[2] in CLOCKS:
            return True
        if isinstance(node, ast.expr) and (place_of(node) or dotted(node)) in times:
            return True
    return False


def computed_after_resizes(tree: ast.Module) -> set[str]:
    """The names that functions of @rs.on_resize bind outside of themselves."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and on_resize(node):
            for part in ast.walk(node):
                if isinstance(part, ast.Global | ast.Nonlocal):
                    found |= set(part.names)
    return found


def on_resize(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a resize calls this function."""
    return any(dotted(d).rpartition(".")[2] == "on_resize" for d in function.decorator_list)
