"""The line of a program that binds a variable, from its source; best effort."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from dq_client.verify.records import Named

DECLARING = frozenset(
    ("matrix", "array", "cartesian", "csr", "items", "local_state", "value", "parcel")
)

SEEDING = frozenset(("seed", "set_state", "setstate", "manual_seed"))


def place_of(named: Named, program: str) -> tuple[str, int | None]:
    """File and line where a variable is bound last; the line is None where none is found.

    program: the file to look into for what is declared; empty: not known
    """
    file = named.file or program
    try:
        tree = ast.parse(Path(file).read_text(), file)
    except (OSError, SyntaxError, ValueError):
        return file, None
    lines = list(_lines(tree, named))
    return file, max(lines, default=None)


def _lines(tree: ast.Module, named: Named) -> Iterator[int]:
    if named.kind in ("part", "value"):
        yield from _declared(tree, named.name)
        return
    if not named.file:  # a global generator
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                of = ast.unparse(node.func.value)
                if node.func.attr in SEEDING and of.rpartition(".")[2] in ("random", "torch"):
                    yield node.lineno
        return
    name = named.name.rpartition(".")[2]
    attribute = "." in named.name
    for scope in _scopes(tree, named.function):
        for node in ast.walk(scope):
            if attribute and isinstance(node, ast.Attribute) and node.attr == name:
                if isinstance(node.ctx, ast.Store):
                    yield node.lineno
            elif isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store):
                yield node.lineno


def _scopes(tree: ast.Module, function: str) -> list[ast.AST]:
    """The functions of this qualified name; the whole file where there is none."""
    name = function.rpartition(".")[2]
    found: list[ast.AST] = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name
    ]
    return found or [tree]


def _declared(tree: ast.Module, name: str) -> Iterator[int]:
    """Where `rs.array("name", ...)` or `rs.keep(name=...)` stands."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        first = node.args[0] if node.args else None
        if node.func.attr in DECLARING and isinstance(first, ast.Constant) and first.value == name:
            yield node.lineno
        if node.func.attr == "keep" and any(word.arg == name for word in node.keywords):
            yield node.lineno
