"""Where a program's variables are: functions that run, modules, classes of its own files."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import sys
import types
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, TypeAlias

import numpy as np

from resize_lib.mistakes import is_program

# A function that runs: its place among them, file, name and first line; or a module: its name.
Owner: TypeAlias = tuple[Any, ...]
MODULE, FRAME = "module", "frame"
LOOPS: Owner = ("loops",)  # the owner of what they are over
ITEMS, BESIDE = "the sequence of loop ", "what is zipped with rs.iterations, number "
SEQUENCES = (list, tuple, range, str, bytes, np.ndarray)
WRAPPERS = frozenset(("zip", "map"))
LAZY: Any = getattr(importlib.util, "_LazyModule", None)  # the class of one that is not loaded yet


DELETED = "is deleted by the loop: bind it to None instead"


class CannotUnbindError(Exception):
    """A variable of a function that runs cannot be deleted."""


@dataclass(frozen=True, slots=True)
class Scope:
    """A function of the program that runs now, or the globals of one of its modules.

    line: the one that runs; 0 for the globals of a module that runs no more
    function: first line of the code; 0 for a module
    """

    owner: Owner
    file: str
    function: int
    line: int
    frame: FrameType | None
    module: ModuleType | None

    def variables(self) -> dict[str, Any]:
        """Names and values now; a copy."""
        if self.module is not None:
            return dict(vars(self.module))
        assert self.frame is not None, "a function that runs"
        return dict(self.frame.f_locals)

    def value(self, name: str) -> Any:
        """The value of a variable now; KeyError: it is not bound."""
        if self.module is not None:
            return vars(self.module)[name]
        assert self.frame is not None, "a function that runs"
        return self.frame.f_locals[name]

    def bind(self, name: str, value: Any) -> None:
        """Give a variable another value, also in a function that runs."""
        if self.module is not None:
            vars(self.module)[name] = value
            return
        assert self.frame is not None, "a function that runs"
        self.frame.f_locals[name] = value
        if sys.version_info < (3, 13):  # from then on f_locals writes through (PEP 667)
            ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(self.frame), ctypes.c_int(0))

    @property
    def unbinds(self) -> bool:
        """Whether variables can be deleted from outside: of functions, Python 3.11 alone does it.

        3.12 binds them to None, and later versions refuse.
        """
        return self.module is not None or sys.version_info < (3, 12)

    def unbind(self, name: str) -> None:
        """Delete a variable.

        Raises:
            CannotUnbindError: this Python cannot do that from outside.
        """
        if not self.unbinds:
            raise CannotUnbindError(f"{name} {DELETED}")
        if self.module is not None:
            vars(self.module).pop(name, None)
            return
        assert self.frame is not None, "a function that runs"
        self.frame.f_locals.pop(name, None)
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(self.frame), ctypes.c_int(1))


class LoopItems:
    """What a loop is over. A rank that joins has a sequence of its own, until it gets the job's.

    sequence: None where the loop is over numbers
    """

    def __init__(self, sequence: Any, frame: FrameType) -> None:
        self.sequence = sequence
        code = frame.f_code
        self.file, self.line = code.co_filename, frame.f_lineno
        self.function = 0 if code.co_name == "<module>" else code.co_firstlineno
        self.zipped = not WRAPPERS.isdisjoint(frame.f_code.co_names)

    def item(self, iteration: int) -> Any:
        """That of an iteration."""
        return self.sequence[iteration]

    @property
    def travels(self) -> bool:
        """Whether it is a plain sequence; others are the same on all ranks, as far as is known."""
        return type(self.sequence) in SEQUENCES


@dataclass(frozen=True, slots=True)
class Sequences(Scope):
    """What the loops are over that run now, outermost first: as if it were in variables.

    beside: iterators that stand beside the loops of this file in a zip; read, and never bound
    """

    loops: tuple[LoopItems | None, ...] = ()
    beside: tuple[Any, ...] = ()

    def variables(self) -> dict[str, Any]:
        """Names and values now."""
        of_loops = enumerate(self.loops, 1)
        found = {f"{ITEMS}{n}": each.sequence for n, each in of_loops if each and each.travels}
        return found | {f"{BESIDE}{n}": each for n, each in enumerate(self.beside, 1)}

    def value(self, name: str) -> Any:
        """One of them."""
        return self.variables()[name]

    def items(self, name: str) -> LoopItems | None:
        """Those that a variable stands for; None: it is an iterator beside a loop."""
        return None if name.startswith(BESIDE) else self.loops[int(name.removeprefix(ITEMS)) - 1]

    def bind(self, name: str, value: Any) -> None:
        """Let a loop go on with other items."""
        items = self.items(name)
        assert items is not None, "it is a loop's"
        items.sequence = value


def is_beside(path: tuple[Any, ...]) -> bool:
    """Whether it leads to an iterator beside a loop, which cannot be given another value."""
    return bool(path[0] == LOOPS and path[1][1].startswith(BESIDE))


def running(outside: FrameType | None = None) -> list[FrameType]:
    """The program's functions that run now, outermost first; its modules' bodies are among them."""
    frame = outside if outside is not None else sys._getframe(1)
    found: list[FrameType] = []
    at: FrameType | None = frame
    while at is not None:
        if is_program(at.f_code.co_filename):
            found.append(at)
        at = at.f_back
    return found[::-1]


def scopes(frames: list[FrameType]) -> Iterator[Scope]:
    """The functions that run, then all modules of the program."""
    bodies: dict[int, FrameType] = {}
    place = 0
    for frame in frames:
        code = frame.f_code
        if code.co_name == "<module>" or frame.f_locals is frame.f_globals:
            bodies[id(frame.f_globals)] = frame
            continue
        owner = (
            FRAME,
            place,
            Path(code.co_filename).name,  # a program may change its folder
            code.co_qualname,
            code.co_firstlineno,
        )
        place += 1
        yield Scope(owner, code.co_filename, code.co_firstlineno, frame.f_lineno, frame, None)
    for module in modules():
        body = bodies.get(id(vars(module)))
        line = body.f_lineno if body is not None else 0
        # Without a file: __main__ inside a program in C.
        written = str(getattr(module, "__file__", None) or "")
        file = body.f_code.co_filename if body is not None else written
        yield Scope((MODULE, module.__name__), file, 0, line, body, module)


def innermost(scopes: Sequence[Scope]) -> Scope | None:
    """The function or module whose statement runs, of what `scopes` returned; None: not known."""
    functions = [scope for scope in scopes if scope.frame is not None and scope.module is None]
    bodies = [scope for scope in scopes if scope.module is not None and scope.line]
    if len(bodies) > 1:  # one imports another, perhaps from within a function
        return None
    return next(reversed([*bodies, *functions]), None)


@dataclass(slots=True)
class _Modules:
    """All that are imported, and those of the program among them: packages may have thousands."""

    key: object = None
    imported: Sequence[object] = ()  # kept, so that an id stays theirs
    found: list[ModuleType] = field(default_factory=list)


_latest = _Modules()


def modules() -> list[ModuleType]:
    """The program's modules that are imported, in the order of their names."""
    names, imported = list(sys.modules), list(sys.modules.values())
    key = names, [*map(id, imported)], [*map(type, imported)]  # a lazy one gets another type
    if key != _latest.key:
        found = [
            (name, module)
            for name, module in zip(names, imported, strict=True)
            if issubclass(type(module), ModuleType) and _is_of_program(name, module)
        ]
        _latest.key, _latest.imported = key, imported
        _latest.found = [module for _, module in sorted(found, key=itemgetter(0))]
    return _latest.found


def _is_of_program(name: str, module: ModuleType) -> bool:
    # By none of its attributes: of importlib's lazy modules, the first look at one loads them.
    if type(module) is LAZY:
        return False
    names = object.__getattribute__(module, "__dict__")
    file = names.get("__file__")
    if file is None:
        return name == "__main__"  # of `python -c`
    return names.get("__name__") == name and is_program_file(str(file))


@lru_cache(maxsize=4096)
def is_program_file(path: str) -> bool:
    """Whether a file is the program's, not a package's or Python's."""
    return path.endswith(".py") and is_program(path)


def is_program_class(kind: type) -> bool:
    """Whether a class stands in one of the program's files."""
    module = sys.modules.get(kind.__module__)
    return module is not None and _is_of_program(kind.__module__, module)


def is_program_function(value: types.FunctionType) -> bool:
    """Whether a function stands in one of the program's files."""
    return is_program(value.__code__.co_filename)


def import_modules(owners: Iterable[Any]) -> int:
    """Import what the job's ranks have imported in the loop; how many there are."""
    missing = [
        owner[1]
        for owner in owners
        if isinstance(owner, tuple) and owner[:1] == (MODULE,) and owner[1] not in sys.modules
    ]
    for name in missing:
        importlib.import_module(name)
    return len(missing)
