"""The program's own variables with their names and values: a walk over its scopes and objects."""

from __future__ import annotations

import linecache
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from mpi4py import MPI

from dq_client.check import facts as sources
from dq_client.check.facts import Facts, facts_of
from resize_lib.state import objects
from resize_lib.state.program import (
    Scope,
    is_program_class,
    is_program_function,
    running,
    scopes,
)
from resize_lib.state.settings import ENVIRONMENT, of_process

DEPTH_MAX = 3  # of attributes of attributes
NO_DATA = (types.ModuleType, types.BuiltinFunctionType, MPI.Comm, MPI.Request, MPI.File, MPI.Win)
OF_RANK = frozenset(("rank", "part", "size", "clock", "empty"))
GENERATOR = "generator"  # the `function` of a global random generator


@dataclass(frozen=True, slots=True)
class Variable:
    """One of them.

    name      as the program has it: `count`, `self.t`, `TABLE`
    file      where it is bound, and `function` there; empty: in the module itself, or anywhere
    of_rank   it depends on the rank, its part of the data, the size or a clock
    """

    name: str
    file: str
    function: str
    value: Any
    of_rank: bool = False

    @property
    def key(self) -> str:
        """The same in each process of each run."""
        return f"{self.file} {self.function} {self.name}"


@dataclass(slots=True)
class Variables:
    """Of one process. Keeps what the sources say, which takes milliseconds to find out."""

    _facts: dict[str, Facts] = field(default_factory=dict)

    def now(self) -> Iterator[Variable]:
        """Those that may be read before they are bound again, and the global random generators.

        Called where an iteration ends: what the next one binds first is a temporary.
        """
        seen: set[int] = set()
        for scope in list(scopes(running())):
            facts = self._of_file(scope)
            live = facts.live(scope.function, scope.line) if facts.known else None
            function, prefix = "", ""
            if scope.module is None:
                function = str(scope.owner[3])
            elif scope.module.__name__ != "__main__":
                prefix = f"{scope.module.__name__}."
            for name, value in scope.variables().items():
                if name.startswith("__") or (live is not None and name not in live):
                    continue
                said = facts.variable(scope.function, scope.line, name) if facts.known else None
                of_rank = said is not None and _is_of_rank(said)
                whole = Variable(f"{prefix}{name}", scope.file, function, value, of_rank)
                yield from self._parts(whole, seen, 0)
        for name, setting in of_process().items():
            if not name.startswith(ENVIRONMENT):
                yield Variable(name, "", GENERATOR, setting.read())

    def _of_file(self, scope: Scope) -> Facts:
        if scope.file not in self._facts:
            names = scope.frame.f_globals if scope.frame is not None else None
            source = "".join(linecache.getlines(scope.file, names))
            self._facts[scope.file] = facts_of(source, scope.file) if source else Facts(None, "")
        return self._facts[scope.file]

    def _parts(self, whole: Variable, seen: set[int], depth: int) -> Iterator[Variable]:
        """The variable itself, or those in it, where it is an object or class of the program."""
        value, kind = whole.value, type(whole.value)
        if isinstance(value, NO_DATA) or kind.__module__.startswith(("resize_lib", "mpi4py")):
            return
        file, inside = whole.file, dict[str, Any]()
        if isinstance(value, types.FunctionType):
            if is_program_function(value):
                file, inside = value.__code__.co_filename, _cells(value)
        elif isinstance(value, type):
            if is_program_class(value):
                file, inside = _file_of(value), _data_of(value)
        elif is_program_class(kind):
            file, inside = _file_of(kind), objects.attributes(value)
        else:
            yield whole
            return
        if id(value) in seen or depth >= DEPTH_MAX:
            return
        seen.add(id(value))
        facts = self._facts.get(file)
        for name, held in inside.items():
            of_rank = facts is not None and facts.known and _is_of_rank(facts.attribute(name))
            part = Variable(f"{whole.name}.{name}", file, "", held, of_rank)
            yield from self._parts(part, seen, depth + 1)


def _is_of_rank(said: sources.Variable) -> bool:
    return bool((said.set_up | said.loop) & OF_RANK)


def _file_of(kind: type) -> str:
    return str(sys.modules[kind.__module__].__file__)


def _data_of(kind: type) -> dict[str, Any]:
    return {
        name: value
        for name, value in vars(kind).items()
        if not (name.startswith("__") or callable(value) or hasattr(value, "__get__"))
    }


def _cells(function: types.FunctionType) -> dict[str, Any]:
    """What a function has taken along of the one around it."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not bound yet
            continue
    return found
