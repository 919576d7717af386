"""What a port to DQ has to touch in a program that has no session yet."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dq_client.check import words as w
from dq_client.check.facts import Facts
from dq_client.check.program import Loop, Program
from dq_client.check.variables import LOCAL, Trouble
from dq_client.check.view import View


def to_port(tree: ast.Module, facts: Facts, program: Program) -> list[Trouble]:
    """The lines of an MPI program that a port changes; none of a program without MPI."""
    begin = _where_mpi_begins(tree)
    if not begin:
        return []
    found = {Trouble(begin, "port-session", "")}
    for loop in repeating_loops(program):
        found.add(Trouble(loop.line, "port-loop", ""))
        found |= set(_split_by_rank(facts, program, loop))
    return sorted(found)


def repeating_loops(program: Program) -> list[Loop]:
    """The outermost loops whose iterations communicate, here or in functions that they call."""
    found: list[Loop] = []
    for loop in sorted(program.loops, key=lambda o: (o.scope, o.line, -o.end)):
        view = View(program, loop.scope, loop.line)
        is_inside = any(o.scope == loop.scope and o.line <= loop.line <= o.end for o in found)
        if not is_inside and any(view.has(scope, line) for scope, line in program.communication):
            found.append(loop)
    # A loop in a function that another of these loops calls is part of that one's iteration.
    views = [View(program, loop.scope, loop.line) for loop in found]
    return [
        loop
        for loop in found
        if not any(v.calls(loop.scope) for v, o in zip(views, found, strict=True) if o is not loop)
    ]


def _split_by_rank(facts: Facts, program: Program, loop: Loop) -> Iterator[Trouble]:
    """Arrays that each rank has a part of, and numbers that follow from the rank or the size."""
    scope = program.scopes[loop.scope]
    view = View(program, scope.number, loop.line)
    for name in facts.live(scope.line, loop.line):
        variable = facts.variable(scope.line, loop.line, name)
        depends = variable.set_up & {"rank", "size"}
        kinds = view.kinds(name)
        if not depends or not variable.line or kinds & {w.COMM, w.RNG}:
            continue
        if kinds == {w.PLAIN}:
            if not variable.loop & LOCAL:
                yield Trouble(variable.line, "kept-number", name)
        elif variable.used:
            yield Trouble(variable.line, "port-array", name)


def _where_mpi_begins(tree: ast.Module) -> int:
    """The line that imports mpi4py; 0 in what is no program for MPI_COMM_WORLD."""
    nodes = list(ast.walk(tree))
    if not any(isinstance(node, ast.Attribute) and node.attr == "COMM_WORLD" for node in nodes):
        return 0
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mpi4py"):
            return node.lineno
        if isinstance(node, ast.Import) and any(a.name.startswith("mpi4py") for a in node.names):
            return node.lineno
    return 0
