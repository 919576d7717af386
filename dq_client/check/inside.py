"""What called functions leave for the next turn: in objects, in globals, in what they are given.

`sim.step()` with `self.t += dt`, `step()` with `global t`, `advance(state)` with
`state["t"] += dt`: as in carried.py, one call further and more. Calls are followed within the file,
also to methods of objects that the file makes by `sim = Sim(...)`.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass, field

from dq_client.check.carried import (
    OF_DECLARED,
    Turn,
    base_of,
    feeds,
    kept_by,
    place_of,
    times_in,
)
from dq_client.check.names import dotted

DEPTH_MAX = 4
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Called:
    """A function as a turn calls it: in the caller's names."""

    line: int  # of the call in the loop
    name: str
    body: list[ast.stmt]
    own: set[str]  # names that are gone when it returns
    outer: set[str]  # its globals and nonlocals

    def changes(self, place: str) -> bool:
        """Whether the place is still there afterwards, and no part of declared data."""
        if OF_DECLARED & set(place.partition("[")[0].split(".")):
            return False
        return place in self.outer or (base_of(place) != place and base_of(place) not in self.own)


@dataclass(slots=True)
class File:
    """The functions, classes and objects that a file makes."""

    functions: dict[str, Function] = field(default_factory=dict)
    methods: dict[str, dict[str, Function]] = field(default_factory=dict)  # by class
    class_of: dict[str, str] = field(default_factory=dict)  # of objects, as they are called

    @classmethod
    def of(cls, tree: ast.Module) -> File:
        """All that stands in it; a name that two classes share is nobody's."""
        found = cls()
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found.methods[node.name] = {n.name: n for n in node.body if isinstance(n, Function)}
        inside = {id(m) for methods in found.methods.values() for m in methods.values()}
        for node in ast.walk(tree):
            if isinstance(node, Function) and id(node) not in inside:
                found.functions[node.name] = node
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                made = dotted(node.value.func)
                if made in found.methods:
                    for name in map(dotted, node.targets):
                        known = found.class_of.get(name, made)
                        found.class_of[name] = made if known == made else ""
        return found

    def around(self, function: ast.AST) -> dict[str, str]:
        """The objects as that function calls them: with itself, if it is a method."""
        for name, methods in self.methods.items():
            if any(method is function for method in methods.values()):
                assert isinstance(function, Function)
                first = function.args.args[:1]
                return {**self.class_of, **{argument.arg: name for argument in first}}
        return self.class_of

    def resolve(self, call: ast.Call, objects: dict[str, str]) -> tuple[Function, list[ast.expr]]:
        """The function that is called and what it is given; KeyError if it is not known."""
        if isinstance(call.func, ast.Name):
            return self.functions[call.func.id], call.args
        if not isinstance(call.func, ast.Attribute):
            raise KeyError
        owner = call.func.value
        function = self.methods[objects[dotted(owner)]][call.func.attr]
        if function.decorator_list:
            raise KeyError(call.func.attr)  # a static method has no owner
        return function, [owner, *call.args]


class _InCallersNames(ast.NodeTransformer):
    def __init__(self, given: dict[str, ast.expr]) -> None:
        self._given = given

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if isinstance(node.ctx, ast.Load) and node.id in self._given:
            return ast.copy_location(copy.deepcopy(self._given[node.id]), node)
        return node


def _calls(
    body: list[ast.stmt], file: File, objects: dict[str, str], line: int, names: tuple[str, ...]
) -> Iterator[Called]:
    """The functions of the file that are called there, and by these."""
    for node in (n for statement in body for n in ast.walk(statement) if isinstance(n, ast.Call)):
        try:
            function, values = file.resolve(node, objects)
        except KeyError:
            continue
        if function.name in names or len(names) >= DEPTH_MAX:
            continue
        arguments = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
        given = dict(zip(arguments, values, strict=False))
        given |= {k.arg: k.value for k in node.keywords if k.arg in arguments and k.arg}
        given = {name: value for name, value in given.items() if dotted(value)}
        outer = {name for part in ast.walk(function)
                 if isinstance(part, ast.Global | ast.Nonlocal) for name in part.names}  # fmt: skip
        bound = {part.id for part in ast.walk(function)
                 if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load)}  # fmt: skip
        rename = _InCallersNames({n: v for n, v in given.items() if n not in bound})
        inner = [rename.visit(copy.deepcopy(statement)) for statement in function.body]
        own = (bound | set(arguments)) - outer - {base_of(dotted(v)) for v in given.values()}
        at = line or node.lineno
        yield Called(at, function.name, inner, own, outer)
        yield from _calls(inner, file, objects, at, (*names, function.name))


def _reads(body: list[ast.stmt], place: str) -> bool:
    """Whether the place itself is read there."""
    kinds = ast.Name | ast.Attribute | ast.Subscript
    nodes = (n for statement in body for n in ast.walk(statement) if isinstance(n, kinds))
    return any(isinstance(n.ctx, ast.Load) and (place_of(n) or dotted(n)) == place for n in nodes)


def changed_inside(loop: ast.For, around: ast.AST, tree: ast.Module) -> list[tuple[str, str, int]]:
    """What functions that the turns call leave for the next turn: the name, in which, its line.

    around: the function, or the module, that the loop is in
    """
    file, kept = File.of(tree), kept_by(tree)
    turn = Turn(kept)
    turn.bind(loop.target)
    turn.body(loop.body)
    fresh = set(turn.certain)  # what each turn makes anew, here or by a call
    found: list[tuple[str, str, int]] = []
    calls = list(_calls(loop.body, file, file.around(around), 0, ()))
    for called in sorted(calls, key=lambda each: each.line):
        inside = Turn(kept)
        inside.body(called.body)
        times = times_in(ast.Module(called.body, []))
        for place, line in inside.bound.items():
            known = {place, base_of(place)} & fresh or place in times or not called.changes(place)
            used = feeds(called.body, place) or _reads(loop.body, place)
            if not known and place in inside.read_first and used:
                found.append((place, called.name, line))
        fresh |= {p for p in inside.certain - inside.read_first if called.changes(p)}
    return found
