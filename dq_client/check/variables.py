"""Variables that a resize makes wrong, from the facts of the source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dq_client.check import words as w
from dq_client.check.answer import Variable
from dq_client.check.facts import Facts
from dq_client.check.program import Loop, Program
from dq_client.check.roles import Role
from dq_client.check.view import View

LOCAL = {"rank", "part", "clock"}  # what differs between the ranks of one job


@dataclass(frozen=True, slots=True, order=True)
class Trouble:
    """A variable that a resize makes wrong: where, the code of the finding, what to call it."""

    line: int
    code: str
    what: str


def kept_variables(facts: Facts, program: Program) -> list[Trouble]:
    """Variables that the loops over iterations leave wrong after a resize, by line."""
    found: set[Trouble] = set()
    loops = [loop for loop in program.loops if loop.over_iterations]
    for loop in loops:
        if facts.here(loop.line):
            found |= set(in_loop(facts, program, loop))
    if loops:
        found |= set(_elsewhere(facts, program))
    first: dict[int, Trouble] = {}
    for trouble in sorted(found):
        first.setdefault(trouble.line, trouble)
    return list(first.values())


def in_loop(facts: Facts, program: Program, loop: Loop) -> Iterator[Trouble]:
    """Those of the function that a loop is in."""
    scope = program.scopes[loop.scope]
    view = View(program, scope.number, loop.line)
    for name in facts.live(scope.line, loop.line):
        variable = facts.variable(scope.line, loop.line, name)
        yield from _judged(facts, name, variable, view.kinds(name))


def _elsewhere(facts: Facts, program: Program) -> Iterator[Trouble]:
    """Those of the module, which functions use, and of objects."""
    view = View(program, 0, 0)
    for node in program.value_changes:
        differs = w.RANK | w.PART | w.CLOCK
        if view.has(node.scope, node.file_line) and view.sources_inside([node]) & differs:
            what = "what each rank computes for itself"
            if line := facts.here(node.file_line):
                yield Trouble(line, "value-differs", what)
    for number, name in list(program.names):
        if not number and view.reads(f"^0:{name}"):
            yield from _judged(facts, name, facts.variable(0, 0, name), view.kinds(name))
    for name in list(program.attributes):
        if view.reads(f".{name}"):
            kinds = {n.kind for n in program.attributes[name]}
            yield from _judged(facts, f"the attribute {name}", facts.attribute(name), kinds)


def _judged(facts: Facts, name: str, variable: Variable, kinds: set[str]) -> Iterator[Trouble]:
    here, changed_here = variable.file == facts.file, variable.changed_file == facts.file
    if variable.rebuilt or not variable.used or kinds & {w.COMM, w.GRID, w.OBJECT, w.SESSION}:
        return
    if variable.accumulates and w.GENERATOR in kinds and here:
        yield Trouble(variable.line, "cannot-travel", name)
    elif variable.accumulates and variable.loop & LOCAL and variable.role is not Role.ROOT:
        if changed_here:
            yield Trouble(variable.changed_line, "lost-at-shrink", name)
    elif not variable.accumulates and not variable.loop and variable.line and here:
        by_rank = "rank" in variable.set_up and kinds == {w.PLAIN}
        if "size" in variable.set_up or by_rank:
            yield Trouble(variable.line, "kept-number", name)
