"""The functions of a file with the names that belong to each: local, captured, global.

A *scope* is the module or one function. Class bodies are no scopes of their own: their names are
attributes, and the functions in them see past the class, as Python has it. The variables of a
comprehension are hidden inside it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

Function = ast.FunctionDef | ast.AsyncFunctionDef
LEAVES = {ast.Constant, ast.Load, ast.Store, ast.Del, ast.Add, ast.Mult, ast.Sub, ast.Div}
REBUILDS = {"on_resize", "setup"}
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@dataclass(eq=False, slots=True)
class Scope:
    """The module or one function of it."""

    node: ast.Module | Function | ast.Lambda
    parent: Scope | None
    number: int  # 0: the module
    in_class: str = ""  # of a method: the class that it stands in
    bound: set[str] = field(default_factory=set)  # names that belong to this scope
    free: set[str] = field(default_factory=set)  # read here or in functions inside, bound outside
    globals: set[str] = field(default_factory=set)
    nonlocals: set[str] = field(default_factory=set)
    inner: list[Scope] = field(default_factory=list)
    yields: bool = False
    reads_all: bool = False  # by locals(), eval, exec

    @property
    def line(self) -> int:
        """The line that its code object counts as its first; 0 for the module."""
        if isinstance(self.node, ast.Module):
            return 0
        if isinstance(self.node, ast.Lambda):
            return self.node.lineno
        return min([self.node.lineno, *(d.lineno for d in self.node.decorator_list)])

    @property
    def name(self) -> str:
        """Of the function; empty for the module and lambdas."""
        return self.node.name if isinstance(self.node, Function) else ""

    @property
    def parameters(self) -> list[str]:
        """In the order of the call, then those that go by keyword only."""
        if isinstance(self.node, ast.Module):
            return []
        given = self.node.args
        return [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)]

    def owner(self, name: str) -> Scope:
        """The scope that a name belongs to when it is used here; the module if none binds it."""
        scope: Scope = self
        while scope.parent is not None and (name not in scope.bound or name in scope.globals):
            scope = self._module if name in scope.globals else scope.parent
        return scope

    @property
    def _module(self) -> Scope:
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope


def scopes_of(tree: ast.Module) -> list[Scope]:
    """All scopes of a file, the module first, each before those inside it."""
    found: list[Scope] = []
    _enter(tree, None, "", found)
    for scope in reversed(found):  # the inner ones first
        for name in ("locals", "eval", "exec", "vars"):
            scope.reads_all = scope.reads_all or (name in scope.free and name not in scope.bound)
        scope.free -= scope.bound
        if scope.parent is not None:
            scope.parent.free |= scope.free
            if scope.reads_all:
                scope.parent.reads_all = True
    return found


def _enter(
    node: ast.Module | Function | ast.Lambda,
    parent: Scope | None,
    in_class: str,
    found: list[Scope],
) -> None:
    scope = Scope(node, parent, len(found), in_class)
    found.append(scope)
    if parent is not None:
        parent.inner.append(scope)
    if not isinstance(node, ast.Module):
        given = node.args
        extra = (a for a in (given.vararg, given.kwarg) if a is not None)
        scope.bound.update(scope.parameters, (a.arg for a in extra))
    body = [node.body] if isinstance(node, ast.Lambda) else node.body
    for part in body:
        _collect(part, scope, "", frozenset(), found)
    outer = scope.globals | scope.nonlocals
    scope.bound -= outer
    scope.free |= outer


def _collect(
    node: ast.AST, scope: Scope, in_class: str, hidden: frozenset[str], found: list[Scope]
) -> None:
    """Note the names of a node in its scope."""
    match node:
        case ast.Name(id=name):
            if name in hidden:
                return
            if isinstance(node.ctx, ast.Load):
                scope.free.add(name)
            elif not in_class:
                scope.bound.add(name)
            return
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
            if isinstance(node, Function):
                if not in_class:
                    scope.bound.add(node.name)
                for part in node.decorator_list:
                    _collect(part, scope, in_class, hidden, found)
            for default in (*node.args.defaults, *node.args.kw_defaults):
                if default is not None:
                    _collect(default, scope, in_class, hidden, found)
            _enter(node, scope, in_class, found)
            found_scope = scope.inner[-1]
            found_scope.free -= hidden
            return
        case ast.ClassDef():
            if not in_class:
                scope.bound.add(node.name)
            for part in (*node.decorator_list, *node.bases, *(k.value for k in node.keywords)):
                _collect(part, scope, in_class, hidden, found)
            for statement in node.body:
                _collect(statement, scope, node.name, hidden, found)
            return
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            hidden = hidden | targets_of(node)
        case ast.Yield() | ast.YieldFrom():
            scope.yields = True
        case ast.Global(names=names):
            scope.globals.update(names)
        case ast.Nonlocal(names=names):
            scope.nonlocals.update(names)
        case ast.Import() | ast.ImportFrom():
            if not in_class:
                scope.bound.update(a.asname or a.name.partition(".")[0] for a in node.names)
            return
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
            scope.bound.add(name)
        case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            scope.bound.add(name)
    for inner in children(node):
        _collect(inner, scope, in_class, hidden, found)


def children(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a node that may hold names: as ast.iter_child_nodes, in half the time."""
    for name in node._fields:
        part = getattr(node, name, None)
        if type(part) is list:
            for each in part:
                if isinstance(each, ast.AST) and type(each) is not ast.Constant:
                    yield each
        elif isinstance(part, ast.AST) and type(part) not in LEAVES:
            yield part


def rebuilds(function: ast.AST) -> bool:
    """Whether each resize runs this function again: `@rs.on_resize`, `@rs.setup`."""
    decorators = function.decorator_list if isinstance(function, Function) else []
    called = [d.func if isinstance(d, ast.Call) else d for d in decorators]
    return any(getattr(d, "attr", getattr(d, "id", "")) in REBUILDS for d in called)


def targets_of(node: Comprehension) -> frozenset[str]:
    """The variables of a comprehension."""
    return frozenset(
        name.id
        for generator in node.generators
        for name in ast.walk(generator.target)
        if isinstance(name, ast.Name)
    )


def statements_of(body: list[ast.stmt], *, definitions: bool = False) -> Iterator[ast.stmt]:
    """All statements of a function, outer ones first; with definitions: of those in it, too."""
    for statement in body:
        yield statement
        if not definitions and isinstance(statement, Function | ast.ClassDef):
            continue
        for name in ("body", "orelse", "finalbody"):
            yield from statements_of(getattr(statement, name, []), definitions=definitions)
        for part in (*getattr(statement, "handlers", []), *getattr(statement, "cases", [])):
            yield from statements_of(part.body, definitions=definitions)


def begins_iterations(node: ast.expr) -> bool:
    """Whether a loop goes over the iterations of a session, perhaps inside tqdm or zip."""
    return any(
        isinstance(n, ast.Call)
        and isinstance(n.func, ast.Attribute)
        and n.func.attr in ("iterations", "remap")
        for n in ast.walk(node)
    )


def rebound_in(node: ast.AST) -> set[str]:
    """The names that statements give another object; `+=` perhaps does not."""
    updated = {id(n.target) for n in ast.walk(node) if isinstance(n, ast.AugAssign)}
    stored = (n for n in ast.walk(node) if isinstance(n, ast.Name) and id(n) not in updated)
    return {n.id for n in stored if isinstance(n.ctx, ast.Store)}


def is_view(index: ast.expr) -> bool:
    """Whether an index gives a view of an array, not an item or a copy."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return any(isinstance(part, ast.Slice) for part in parts) or is_whole(index)


def is_whole(index: ast.expr) -> bool:
    """Whether it is `[:]`, `[...]` or `[:, :]`: all items."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return all(
        (isinstance(p, ast.Slice) and p.lower is None and p.upper is None and p.step is None)
        or (isinstance(p, ast.Constant) and p.value is Ellipsis)
        for p in parts
    )


def own_scope(scopes: Sequence[Scope], function: int, line: int) -> Scope | None:
    """The function of a file that begins at this line; of several the one around `line`."""
    fitting = [s for s in scopes if s.line == function]
    if not fitting and function == 1:  # as compilers count the module
        return scopes[0]
    around = [s for s in fitting if s.line <= line <= _end(s)]
    return next(iter(around or fitting), None)


def _end(scope: Scope) -> int:
    return getattr(scope.node, "end_lineno", None) or 1 << 30
