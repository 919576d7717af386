"""The program's own variables: in its functions that run, its modules, its objects and classes."""

from __future__ import annotations

import random
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np
from mpi4py import MPI

from resize_lib.mistakes import is_program

DEPTH_MAX = 3  # of attributes of attributes
NO_DATA = (types.ModuleType, types.BuiltinFunctionType, MPI.Comm, MPI.Request, MPI.File, MPI.Win)


@dataclass(frozen=True, slots=True)
class Variable:
    """One of them.

    name      as the program has it: `count`, `self.t`, `TABLE`
    file      where it is bound, and `function` there; empty: in the module itself, or anywhere
    """

    name: str
    file: str
    function: str
    value: Any

    @property
    def key(self) -> str:
        """The same in each process of each run."""
        return f"{self.file} {self.function} {self.name}"


def variables() -> Iterator[Variable]:
    """All of them now, those of inner functions first; of one name in one function the innermost's.

    Also the state of the global generators of `random` and `numpy.random`.
    """
    seen: set[int] = set()
    at: FrameType | None = sys._getframe(1)
    while at is not None:
        code = at.f_code
        if is_program(code.co_filename) and at.f_locals is not at.f_globals:
            yield from _named(dict(at.f_locals), code.co_filename, code.co_qualname, "", seen)
        at = at.f_back
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and getattr(module, "__name__", "") == name and _is_own(str(file)):
            prefix = "" if name == "__main__" else f"{name}."
            yield from _named(dict(vars(module)), str(file), "", prefix, seen)
    yield Variable("random", "", "", random.getstate())
    yield Variable("numpy.random", "", "", np.random.get_state())


def _is_own(file: str) -> bool:
    return file.endswith(".py") and is_program(file)


def _named(
    found: dict[str, Any], file: str, function: str, prefix: str, seen: set[int]
) -> Iterator[Variable]:
    for name, value in found.items():
        if not (name.startswith("__") and name.endswith("__")):
            yield from _of(f"{prefix}{name}", value, file, function, seen, 0)


def _of(
    name: str, value: Any, file: str, function: str, seen: set[int], depth: int
) -> Iterator[Variable]:
    """The variable itself, or those in it, where it is an object or a class of the program."""
    kind = type(value)
    if isinstance(value, NO_DATA) or kind.__module__.startswith(("resize_lib.", "mpi4py.")):
        return
    inside: dict[str, Any] = {}
    if isinstance(value, types.FunctionType):
        if is_program(value.__code__.co_filename):
            file, inside = value.__code__.co_filename, _cells(value)
    elif isinstance(value, type):
        if _class_file(value):
            file, inside = _class_file(value), _data_of(value)
    elif _class_file(kind) and hasattr(value, "__dict__"):
        file, inside = _class_file(kind), dict(vars(value))
    else:
        yield Variable(name, file, function, value)
        return
    if id(value) in seen or depth >= DEPTH_MAX:
        return
    seen.add(id(value))
    for part, held in inside.items():
        yield from _of(f"{name}.{part}", held, file, "", seen, depth + 1)


def _class_file(kind: type) -> str:
    """The program's file in which a class stands; empty: it is not the program's."""
    module = sys.modules.get(kind.__module__)
    file = str(getattr(module, "__file__", "") or "")
    return file if _is_own(file) else ""


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
