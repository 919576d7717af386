"""The files of a program as one file, so that what one keeps and another reads is seen.

The tree has the statements of all modules, in the order of their imports, the main program last. A
global variable of another module gets the module's number behind its name (`history·2`), also where
others use it: as `module.history`, or after `from module import history`. Line numbers of other
modules are below zero, the earlier imported the lower, so they come before those of the main
program.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from dq_client.check.program import STRIDE, Program
from dq_client.check.scopes import (
    Comprehension,
    Function,
    Scope,
    own_scope,
    scopes_of,
    statements_of,
    targets_of,
)
from dq_client.check.statements import program_of
from dq_client.check.view import View

MAIN = "__main__"
T = TypeVar("T")
Lines: TypeAlias = tuple[tuple[int, int], ...]  # scopes that run, by number, and their lines


@dataclass(frozen=True, slots=True)
class Source:
    """A module of the program: `name` as others import it, its tree in plain forms."""

    name: str
    file: str
    tree: ast.Module
    is_package: bool = False

    @property
    def package(self) -> str:
        """Where its relative imports begin."""
        return self.name if self.is_package else self.name.rpartition(".")[0]


def absolute(node: ast.ImportFrom, package: str) -> str:
    """Return the module that a statement imports from, in a file of this package."""
    if not node.level:
        return node.module or ""
    parts = package.split(".") if package else []
    inner = [node.module] if node.module else []
    return ".".join([*parts[: len(parts) - node.level + 1], *inner])


@dataclass(frozen=True, slots=True)
class Ref:
    """What a name stands for: a module, or the variable `name` of one."""

    module: str
    name: str = ""


class Linked:
    """The program of all files, and what is seen from its loops."""

    def __init__(self, tree: ast.Module, modules: Sequence[_Module]) -> None:
        self._modules = {module.source.file: module for module in modules}
        self._files = [module.source.file for module in modules]
        self.tree = tree
        self.scopes = scopes_of(tree) if len(modules) > 1 else modules[0].scopes
        self._numbers = {_place(s.node): s.number for s in self.scopes[1:]}
        self._program: Program | None = None
        self._views: dict[tuple[int, int, Lines], View] = {}
        self._found: dict[Callable[..., Any], list[Any]] = {}

    @property
    def program(self) -> Program:
        """The graph of all its values, drawn when it is asked for."""
        if self._program is None:
            self._program = program_of(self.tree, self.scopes)
        return self._program

    def view(self, scope: int, line: int, running: Lines) -> View:
        """Its variables as seen from a loop, or a call."""
        key = scope, line, running
        if key not in self._views:
            self._views[key] = View(self.program, scope, line, running)
        return self._views[key]

    def once(self, what: Callable[..., Iterable[T]], *given: Any) -> list[T]:
        """All that a generator finds in the program, looked for once."""
        if what not in self._found:
            self._found[what] = list(what(*given))
        return self._found[what]

    def running(self, places: Iterable[tuple[str, int, int]]) -> Lines:
        """Scopes and lines here of functions that run: files, first lines, lines that run."""
        found = []
        for file, function, line in places:
            module = self._modules.get(file)
            scope = own_scope(module.scopes, function, line) if module is not None else None
            if scope is not None:
                found.append((self.number(file, scope), self.line(file, line)))
        return tuple(found)

    def number(self, file: str, scope: Scope) -> int:
        """The number here of a scope of a file's own tree."""
        if scope.parent is None:
            return 0
        row, column, kind = _place(scope.node)
        return self._numbers.get((self.line(file, row), column, kind), 0)

    def name(self, file: str, name: str) -> str:
        """What a global variable of a file is called here."""
        module = self._modules.get(file)
        return module.called(name) if module is not None else name

    def given(self, file: str) -> frozenset[str]:
        """The globals of a file that others bind, as `module.name = 1`."""
        module = self._modules.get(file)
        return frozenset(module.given if module is not None else ())

    def line(self, file: str, line: int) -> int:
        """The line here of a line of a file."""
        module = self._modules.get(file)
        return line + module.base if module is not None and line else line

    def place(self, line: int) -> tuple[str, int]:
        """The file and the line there of a line here."""
        base = line // STRIDE
        return self._files[base - 1], line - base * STRIDE


def linked(sources: Sequence[Source]) -> Linked:
    """Return one program of modules; the last of them in the end, others as they are imported."""
    modules = {source.name: _Module(source) for source in sources}
    for module in modules.values():
        module.read_imports(modules)
    for module in modules.values():
        module.give_attributes()
    ordered = _ordered(list(modules.values()))
    for at, module in enumerate(ordered):
        module.number, module.base = at, (at + 1 - len(ordered)) * STRIDE
    if len(ordered) == 1:
        return Linked(sources[0].tree, ordered)
    for name in {name for module in ordered for name in module.outside}:
        meant = {m.outside[name] for m in ordered if name in m.outside}
        if len(meant) > 1 or name in ordered[-1].own:
            for module in ordered[:-1]:
                module.own |= {name} & module.outside.keys()
    body = [statement for module in ordered for statement in module.renamed()]
    return Linked(ast.Module(body, []), ordered)


def _ordered(modules: list[_Module]) -> list[_Module]:
    """Each behind those that it imports, the last one of all in the end."""
    by_name = {module.source.name: module for module in modules}
    found: list[_Module] = []
    entered = set[str]()

    def enter(module: _Module) -> None:
        if module.source.name not in entered:
            entered.add(module.source.name)
            for name in module.imported:
                if name in by_name:
                    enter(by_name[name])
            found.append(module)

    main = modules[-1]
    enter(main)
    for module in modules:
        enter(module)
    found.remove(main)
    return [*found, main]


def _place(node: ast.AST) -> tuple[int, int, type]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0), type(node)


@dataclass(eq=False, slots=True)
class _Module:
    """A module with what its names stand for.

    own: globals that it binds itself. given: those that others bind in it. outside: names of what
    is no module of the program, with the imports that bind them. refs: of each scope, by its
    number, the names that stand for modules of the program or variables of these
    """

    source: Source
    number: int = 0
    base: int = 0
    scopes: list[Scope] = field(default_factory=list)
    own: set[str] = field(default_factory=set)
    given: set[str] = field(default_factory=set)
    outside: dict[str, str] = field(default_factory=dict)
    refs: dict[int, dict[str, Ref]] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    imported: list[str] = field(default_factory=list)
    modules: dict[str, _Module] = field(default_factory=dict)

    def read_imports(self, modules: dict[str, _Module]) -> None:
        """Find out what the module's names stand for."""
        self.modules, self.scopes = modules, scopes_of(self.source.tree)
        imports = {scope.number: dict(self._imports_of(scope)) for scope in self.scopes}
        bound = self.scopes[0].bound.union(*(scope.globals for scope in self.scopes))
        assigned = _assigned(self.source.tree)
        for number, meant in imports.items():
            refs = {n: ref for n, ref in meant.items() if self._is_known(ref)}
            self.refs[number] = (
                refs if number else {n: r for n, r in refs.items() if n not in assigned}
            )
        others = imports[0].items() - self.refs[0].items()
        self.outside = {n: f"{r.module}.{r.name}" for n, r in others if n not in assigned}
        self.own = bound - self.refs[0].keys() - self.outside.keys()

    def give_attributes(self) -> None:
        """Note what the module binds in others, as `settings.step = 3`: it is theirs."""
        for node in ast.walk(self.source.tree):
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
                name = node.value.id if isinstance(node.value, ast.Name) else ""
                for refs in self.refs.values():
                    ref = self.follow(refs[name]) if name in refs else None
                    if ref is not None and not ref.name and ref.module in self.modules:
                        self.modules[ref.module].given.add(node.attr)

    def _is_known(self, ref: Ref) -> bool:
        whole = f"{ref.module}."
        return ref.module in self.modules or (
            not ref.name and any(name.startswith(whole) for name in self.modules)
        )

    def _imports_of(self, scope: Scope) -> Iterator[tuple[str, Ref]]:
        """The names that the imports of a scope bind."""
        body = scope.node.body
        for node in statements_of(body) if isinstance(body, list) else ():
            if isinstance(node, ast.Import):
                for each in node.names:
                    self.imported.append(each.name)
                    whole = each.name if each.asname else each.name.partition(".")[0]
                    yield each.asname or whole, Ref(whole)
            elif isinstance(node, ast.ImportFrom):
                module = absolute(node, self.source.package)
                self.imported += [module, *(f"{module}.{each.name}" for each in node.names)]
                for each in node.names:
                    inner = f"{module}.{each.name}"
                    if each.name == "*":
                        self.stars.append(module)
                    elif inner in self.modules:
                        yield each.asname or each.name, Ref(inner)
                    else:
                        yield each.asname or each.name, Ref(module, each.name)

    def called(self, name: str) -> str:
        """What a global variable of the module is called in the whole program."""
        ref = self.find(name)
        return ref.name if ref is not None and ref.name else name

    def find(self, name: str, seen: frozenset[str] = frozenset()) -> Ref | None:
        """The variable of the whole program, or the module, that a global name stands for."""
        if self.source.name in seen:
            return None
        seen |= {self.source.name}
        if name in self.own | self.given:
            is_last = not self.base
            return Ref(self.source.name, name if is_last else f"{name}·{self.number}")
        if name in self.refs[0]:
            return self.follow(self.refs[0][name], seen)
        found = (self.modules[star].find(name, seen) for star in self.stars if star in self.modules)
        return next((ref for ref in found if ref is not None), None)

    def follow(self, ref: Ref, seen: frozenset[str] = frozenset()) -> Ref | None:
        """The same of what an import names."""
        if not ref.name:
            return ref
        inner = f"{ref.module}.{ref.name}"
        if inner in self.modules:
            return Ref(inner)
        return self.modules[ref.module].find(ref.name, seen) if ref.module in self.modules else None

    def renamed(self) -> list[ast.stmt]:
        """Its statements as part of the whole program."""
        tree = copy.deepcopy(self.source.tree)
        ast.increment_lineno(tree, self.base)
        body = _Renamer(self, scopes_of(tree)).visit(tree).body
        assert isinstance(body, list)
        return body


def _assigned(tree: ast.Module) -> set[str]:
    """Globals that something else than an import binds."""
    found = set[str]()
    for node in statements_of(tree.body):
        if isinstance(node, Function | ast.ClassDef):
            found.add(node.name)
        elif not hasattr(node, "body"):
            found |= _stored([node])
        else:
            heads = [n for n in ast.iter_child_nodes(node) if not isinstance(n, ast.stmt)]
            found |= _stored(heads)
    inner = [n for n in ast.walk(tree) if isinstance(n, ast.Global)]
    return found.union(*(node.names for node in inner))


def _stored(nodes: Iterable[ast.AST]) -> set[str]:
    parts = (part for node in nodes for part in ast.walk(node) if isinstance(part, ast.Name))
    return {part.id for part in parts if not isinstance(part.ctx, ast.Load)}


class _Renamer(ast.NodeTransformer):
    """Gives the global variables of a module's tree their names in the whole program."""

    def __init__(self, module: _Module, scopes: list[Scope]) -> None:
        self._module, self._scope = module, scopes[0]
        self._of_node = {id(scope.node): scope for scope in scopes}
        self._hidden: frozenset[str] = frozenset()  # by comprehensions
        self._of_class: frozenset[str] = frozenset()  # bound in the body of a class
        self._in_class = False
        self._stored: list[str] = []  # in this function, of modules

    def visit(self, node: ast.AST) -> Any:
        """The variables of a comprehension are hidden inside it."""
        outside = self._hidden
        if isinstance(node, Comprehension):
            self._hidden |= targets_of(node)
        found = super().visit(node)
        self._hidden = outside
        return found

    def _ref(self, name: str) -> Ref | None:
        """The variable or module that a name stands for here; None: it keeps its name."""
        if name in self._hidden or name in self._of_class:
            return None
        owner = self._scope.owner(name)
        if owner.parent is None:
            return self._module.find(name)
        ref = self._module.refs.get(owner.number, {}).get(name)
        return self._module.follow(ref) if ref is not None else None

    def _name(self, name: str) -> str:
        ref = self._ref(name)
        return ref.name if ref is not None and ref.name else name

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A variable."""
        if not (self._in_class and not isinstance(node.ctx, ast.Load)):
            node.id = self._name(node.id)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """`module.name` is a variable of that module."""
        ref = self._of_module(node)
        if ref is None or not ref.name:
            return node if ref is not None else self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            self._stored.append(ref.name)
        return ast.copy_location(ast.Name(ref.name, node.ctx), node)

    def _of_module(self, node: ast.expr) -> Ref | None:
        """The module, or the variable of a module, that an expression names."""
        if isinstance(node, ast.Name):
            return self._ref(node.id)
        if not isinstance(node, ast.Attribute):
            return None
        base = self._of_module(node.value)
        if base is None or base.name:
            return None
        return self._module.follow(Ref(base.module, node.attr))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """A function: its defaults are of the scope around it."""
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        """A coroutine."""
        return self._function(node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        """A lambda."""
        return self._function(node)

    def _function(self, node: Function | ast.Lambda) -> ast.AST:
        scope = self._of_node[id(node)]
        node.args = self.visit(node.args)
        if isinstance(node, Function):
            node.decorator_list = [self.visit(each) for each in node.decorator_list]
            if not self._in_class:
                node.name = self._name(node.name)
        outside = self._scope, self._of_class, self._in_class, self._stored
        self._scope, self._of_class, self._in_class, self._stored = scope, frozenset(), False, []
        if isinstance(node, Function):
            node.body = self._block(node.body)
            if self._stored:
                declared = ast.Global(sorted(set(self._stored)))
                node.body.insert(0, ast.copy_location(declared, node.body[0]))
        else:
            node.body = self.visit(node.body)
        self._scope, self._of_class, self._in_class, self._stored = outside
        return node

    def _block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        return [self.visit(statement) for statement in body]

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """A class: names of its body are attributes."""
        node.bases = [self.visit(base) for base in node.bases]
        node.keywords = [self.visit(keyword) for keyword in node.keywords]
        node.decorator_list = [self.visit(each) for each in node.decorator_list]
        if not self._in_class:
            node.name = self._name(node.name)
        outside = self._of_class, self._in_class
        inner = (n.name for n in node.body if isinstance(n, Function | ast.ClassDef))
        plain = [n for n in node.body if not isinstance(n, Function | ast.ClassDef)]
        self._of_class, self._in_class = frozenset({*_stored(plain), *inner}), True
        node.body = self._block(node.body)
        self._of_class, self._in_class = outside
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        """What a module does as a program, it does not do where it is imported."""
        if self._module.base and ast.unparse(node.test).startswith("__name__ == "):
            node.body = [ast.copy_location(ast.Pass(), node)]
        return self.generic_visit(node)

    def visit_Global(self, node: ast.Global) -> ast.AST:
        """Names of the module."""
        found = [self._module.called(name) for name in node.names]
        return ast.copy_location(ast.Global(found), node)

    def visit_alias(self, node: ast.alias) -> ast.AST:
        """What comes from outside the program, under a name that another module uses as well."""
        name = node.asname or node.name.partition(".")[0]
        if self._scope.parent is None and not self._in_class and name in self._module.own:
            node.asname = self._module.called(name)
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        """The exception has a name."""
        if node.name:
            node.name = self._name(node.name)
        return self.generic_visit(node)
