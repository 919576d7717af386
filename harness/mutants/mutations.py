"""All mutants of a file, and a sample of those of many."""

from __future__ import annotations

import difflib
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import libcst as cst
from mutmut.mutation.mutators import (
    mutation_operators,
    operator_arg_removal,
    operator_assignment,
    operator_string,
)

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed file; `path` is relative to the repository."""

    path: str
    source: str
    mutated: str

    @property
    def module(self) -> str:
        """The name under which the file is imported."""
        return ".".join(Path(self.path).with_suffix("").parts).removesuffix(".__init__")

    def diff(self) -> str:
        """The change with the line before and after it."""
        lines = difflib.unified_diff(
            self.source.splitlines(), self.mutated.splitlines(), self.path, "mutant", "", "", 1, ""
        )
        return "\n".join(lines)

    @property
    def line(self) -> int:
        """The first line that differs, from 1."""
        lines = zip(self.source.splitlines(), self.mutated.splitlines(), strict=False)
        return next(number for number, (a, b) in enumerate(lines, 1) if a != b)

    def change(self) -> tuple[str, str]:
        """The lines removed and those put in their place: what a survivor is known by."""
        lines = [line for line in self.diff().splitlines()[2:] if not line.startswith("@@")]
        sides = ("\n".join(x[1:].strip() for x in lines if x.startswith(s)) for s in "-+")
        before, after = sides
        return before, after


class Collector(cst.CSTVisitor):
    """Every place in a function that can be changed, with what to put there."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[cst.CSTNode, cst.CSTNode]] = []
        self._functions = 0

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.FunctionDef):
            self._functions += 1
        if isinstance(node, cst.Annotation | cst.Decorator) or _logs(node):
            return False
        if self._functions:
            self.found += [(node, changed) for changed in changes(node)]
        # The arguments of an exception are words for people, as are strings.
        return not isinstance(node, cst.Raise)

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if isinstance(original_node, cst.FunctionDef):
            self._functions -= 1


def _logs(node: cst.CSTNode) -> bool:
    """Whether it is a line for the log: words for people, too."""
    call = node.value if isinstance(node, cst.Expr) else None
    of = (
        call.func.value
        if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute)
        else None
    )
    return isinstance(of, cst.Name) and of.value == "log"


# Not tried: words for people, and what mypy refuses anyway (None for a value, an argument less).
LEFT_OUT = (operator_string, operator_assignment, operator_arg_removal)


def changes(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """mutmut's changes of a node, and what it has none for: a statement or an option left out."""
    for kind, operator in mutation_operators:
        if operator not in LEFT_OUT and isinstance(node, kind):
            yield from operator(node)
    if isinstance(node, cst.Call) and len(node.args) > 1:
        for i, argument in enumerate(node.args):
            # Without `strict` zip hides a mistake elsewhere, and is none itself.
            if argument.keyword is not None and argument.keyword.value != "strict":
                yield node.with_changes(args=[*node.args[:i], *node.args[i + 1 :]])
    if isinstance(node, cst.Raise | cst.Del | cst.AugAssign) or (
        isinstance(node, cst.Expr) and isinstance(node.value, cst.Call)
    ):
        yield cst.Pass()


def sample(files: Iterable[Path], count: int, rng: random.Random) -> list[Mutant]:
    """`count` mutants of all that the files have, in the order of the files; all if there are
    fewer."""
    modules, places = [], []
    for number, path in enumerate(sorted(files)):
        # One parse of each file: a mutant is made by putting its node in place of the right one.
        modules.append((path, cst.parse_module(path.read_text())))
        collector = Collector()
        modules[-1][1].visit(collector)
        places += [(number, *change) for change in collector.found]
    chosen = sorted(rng.sample(range(len(places)), min(count, len(places))))
    return [_mutant(*modules[places[i][0]], *places[i][1:]) for i in chosen]


def _mutant(path: Path, module: cst.Module, old: cst.CSTNode, new: cst.CSTNode) -> Mutant:
    mutated = module.deep_replace(old, new)
    assert isinstance(mutated, cst.Module)
    return Mutant(str(path.relative_to(ROOT)), module.code, mutated.code)
