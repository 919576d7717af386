"""A walk over all variables of a program: a digest for each place that a loop can change.

A place is a variable, an attribute, an item with a text as key, a cell of a closure, or the
contents of an object as a whole. Objects that change in place and were there at the first survey,
when the program came to its first loop, are *anchors*: a rank that joins has made them in its
set-up, too, under the same path. They are read once, wherever else they are referred to. What was
made since then is read as a value.
"""

from __future__ import annotations

import functools
import gc
import io
import os
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from resize_lib.state import digests, objects, settings, views
from resize_lib.state.objects import Kind
from resize_lib.state.places import CONTENTS, KEYS, Path, Place, keys_of
from resize_lib.state.program import Owner, Scope, is_program_class

Kept: TypeAlias = tuple[str, int, str]
Live: TypeAlias = Mapping[Owner, frozenset[str]]  # names by owner; others: all

SETTINGS = "setting"  # the owner of what a process has once: random generators, environment
CLASSES = "class"  # of a class's data
STEPS_SHOWN = 6
UNKNOWN: Owner = ("?",)  # of an object that another rank has only
MEMORIES = frozenset(("c", "d", "w"))
ASKED_MAX = 256  # objects between two looks at the clock
ITEMS_MAX = 64  # of a dict whose items are places of their own
UNREADABLE = b"?"
OPENED = "a file that was opened in the loop: open it before the first loop"
ELSEWHERE = frozenset(
    ("_queue", "_socket", "multiprocessing", "socket", "sqlite3", "ssl", "subprocess")
)
BYTES_VARIABLE, TIME_VARIABLE = "DQ_CARRY_BYTES", "DQ_CARRY_MS"
BYTES_MAX, TIME_MS_MAX = 64 << 20, 50.0
# On a machine that is busy, processor time is longer, too: a small program is not refused for that.
PLACES_FEW, BUSY_FACTOR = 1000, 4


class TooMuchError(Exception):
    """The program's variables are more than can be looked at. path: the largest, if known."""

    path: Path | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a path begins: a scope and its first step; the last attribute on the way, if any.

    memory: it goes through what a function keeps: a cell of a closure, a default argument
    cell: of the last such cell, the function's file and first line, and the variable's name
    default: the same of the last such default argument
    """

    owner: Owner
    first: tuple[Any, ...]
    attribute: str
    memory: bool
    cell: Kept | None = None
    default: Kept | None = None


@dataclass(slots=True)
class Anchor:
    """An object that was there at the first survey.

    key: stands for it on every rank. parent: where it was found, origin: by which way
    held: the object, or a weak reference to it
    """

    key: bytes
    parent: Path
    origin: Origin
    kind: Kind
    held: Any

    def get(self) -> Any:
        """The object; None if it is gone."""
        return self.held() if isinstance(self.held, weakref.ref) else self.held


@dataclass(slots=True)
class Anchors:
    """All of them, by key and by id; arrays by the id of what has their memory, too."""

    by_key: dict[bytes, Anchor] = field(default_factory=dict)
    by_id: dict[int, Anchor] = field(default_factory=dict)
    _by_root: dict[int, list[Anchor]] = field(default_factory=dict)

    def of(self, value: Any) -> Anchor | None:
        """That of an object, if it is one."""
        found = self.by_id.get(id(value))
        return found if found is not None and found.get() is value else None

    def add(self, parent: Path, number: int, kind: Kind, value: Any) -> Anchor:
        """Make one: the `number`-th object that was found there."""
        held: Any = value
        if kind.name not in ("list", "dict", "bytearray"):  # others may be large, and are dropped
            try:
                held = weakref.ref(value)
            except TypeError:
                held = value
        key = digests.digest_of(repr((parent, number)).encode())
        made = Anchor(key, parent, self.origin(parent), kind, held)
        self.by_key[key] = self.by_id[id(value)] = made
        if kind is objects.ARRAY:
            self._by_root.setdefault(id(views.root(value)), []).append(made)
        return made

    def around(self, value: Any) -> tuple[Anchor, views.View] | None:
        """The array that a view belongs to, and which part of it that is."""
        if type(value) is not np.ndarray or value.base is None:
            return None
        for anchor in self._by_root.get(id(views.root(value)), ()):
            whole = anchor.get()
            found = views.view_of(value, whole) if whole is not None else None
            if found is not None:
                return anchor, found
        return None

    def has(self, path: Path) -> bool:
        """Whether the object that a path begins at is known here; of variables: yes."""
        return not isinstance(path[0], bytes) or path[0] in self.by_key

    def origin(self, path: Path) -> Origin:
        """Where a path begins, and what it goes through."""
        owner, step = path
        if not isinstance(owner, bytes):
            return Origin(owner, step, "", memory=False)
        anchor = self.by_key.get(owner)
        if anchor is None:  # of another rank only
            return Origin(UNKNOWN, step, "", memory=False)
        base = anchor.origin
        if step[0] in MEMORIES:
            kept = _kept(anchor.get(), step)
            cell, default = (kept, None) if step[0] == "c" else (None, kept)
            return Origin(base.owner, base.first, "", memory=True, cell=cell, default=default)
        name = step[1] if step[0] == "a" else base.attribute
        return Origin(base.owner, base.first, name, base.memory, base.cell, base.default)

    def shown(self, path: Path) -> str:
        """A path as a programmer writes it: `solver.t`, `TABLE['t']`."""
        owner, step = path
        steps = [step]
        while isinstance(owner, bytes) and owner in self.by_key and len(steps) <= STEPS_SHOWN:
            owner, step = self.by_key[owner].parent
            steps.append(step)
        text = "" if not isinstance(owner, bytes) else "…"
        if owner[0] == CLASSES:
            text = owner[2]
        for step in reversed(steps):
            match step:
                case ("v", name):
                    text = str(name)
                case ("a", name):
                    text = f"{text}.{name}"
                case ("k", name):
                    text = f"{text}[{name!r}]"
                case ("c", _, name):
                    text = f"{name} of {text}"
        return text or "?"


class Survey:
    """What the program's variables are now.

    anchors: those of the first survey; None: this is the first
    known: returns what stands for an object of the library; None: it is the program's
    """

    def __init__(self, anchors: Anchors | None, known: Callable[[Any], bytes | None]) -> None:
        self.first = anchors is None
        self.anchors = anchors if anchors is not None else Anchors()
        self._known = known
        self.digests: dict[Path, bytes] = {}
        self.places: dict[Path, Place] = {}
        self.unreadable: dict[Path, str] = {}  # why
        self.opaque: set[Path] = set()  # objects of packages, read as their classes say
        self.elsewhere: dict[Path, str] = {}  # state outside of Python: sockets, processes
        self.scopes: dict[tuple[Any, ...], Scope] = {}
        self._seen: set[int] = set()
        self._todo: deque[Anchor] = deque()
        self._inside: Path = ((), ())  # the value that is being read
        self._number = 0  # of objects in it
        self._saw_opaque = False  # in it
        self._until_s = self._limit_ms = 0.0
        self._asked = 0  # how many objects were looked at

    def take(self, scopes: Iterable[Scope], live: Live | None = None) -> Survey:
        """Look at all variables; live: at these only.

        Raises:
            TooMuchError: that took longer than it may.
        """
        collects = gc.isenabled()
        gc.disable()  # a collection counts all of the program's objects, not its variables
        try:
            self._take(scopes, live)
        finally:
            if collects:
                gc.enable()
        return self

    def _take(self, scopes: Iterable[Scope], live: Live | None) -> None:
        self._limit_ms = float(os.environ.get(TIME_VARIABLE) or TIME_MS_MAX)
        self._until_s = time.thread_time() + self._limit_ms / 1e3
        for scope in scopes:
            self.scopes[scope.owner] = scope
            names = None if live is None else live.get(scope.owner)
            for name, value in scope.variables().items():
                if not _is_hidden(name) and (names is None or name in names):
                    self._read(scope.owner, ("v", name), value, scope, None)
            self._finish()
        self._read_settings()
        self._finish()

    def _finish(self) -> None:
        while self._todo:
            self._read_anchor(self._todo.popleft())
            self._check_time()

    def _check_time(self) -> None:
        over_s = time.thread_time() - self._until_s
        few = len(self.places) < PLACES_FEW and over_s < (BUSY_FACTOR - 1) * self._limit_ms / 1e3
        if over_s > 0 and not few:
            raise TooMuchError(
                f"the program's variables take more than {self._limit_ms:g} ms to compare (setting"
                f" {TIME_VARIABLE})"
            )

    def _read(
        self, owner_path: Any, step: tuple[Any, ...], value: Any, owner: Any, kind: Kind | None
    ) -> None:
        """A place that holds a value."""
        path = (owner_path, step)
        self.places[path] = Place(owner, step, kind)
        self._inside, self._number = path, 0
        try:
            if type(value) in digests.ATOMS:
                found = digests.plain(value)
                assert found is not None, "marshal takes these"
            else:
                found = self._token(value) or digests.of(value, self._token)
        except digests.CannotDigestError as e:
            self.unreadable[path] = str(e)
            found = UNREADABLE
            kind_name = f"{type(value).__module__}.{type(value).__name__}"
            if type(value).__module__.partition(".")[0] in ELSEWHERE:
                self.elsewhere[path] = f"a {kind_name}"
            elif isinstance(value, io.IOBase):
                self.elsewhere[path] = OPENED
            elif hasattr(type(value), "__next__"):
                self.elsewhere[path] = f"an iterator without a position ({kind_name})"
        self.digests[path] = found
        self._note_opaque(path)

    def _note_opaque(self, path: Path) -> None:
        if self._saw_opaque:
            self.opaque.add(path)
            self._saw_opaque = False

    def _token(self, value: Any, new: bool = True) -> bytes | None:
        """What stands for an object that is read by itself, or is not the program's.

        new: it may be made an anchor
        """
        self._asked += 1
        if not self._asked % ASKED_MAX:  # one value may be a graph with very many ways through it
            self._check_time()
        known = self._known(value)
        if known is not None:
            return known
        anchor, view = self.anchors.of(value), b""
        if anchor is None and not self.first and (part := self.anchors.around(value)) is not None:
            anchor, view = part[0], repr(part[1]).encode()
            value = anchor.get()
        if anchor is None:
            kind = objects.kind_of(value) if self.first else None
            if kind is None or not (new or kind.name in objects.BY_NAME):
                self._saw_opaque = self._saw_opaque or not _is_plain(type(value))
                return None
            if kind is objects.CLASS or kind is objects.MEMBER:  # by name, wherever it was found
                cls = value if kind is objects.CLASS else type(value)
                step = KEYS if kind is objects.CLASS else ("a", value.name)
                owner = (CLASSES, cls.__module__, cls.__qualname__)
                anchor = self.anchors.add((owner, step), 0, kind, value)
            else:
                anchor = self.anchors.add(self._inside, self._number, kind, value)
                self._number += 1
        if id(value) not in self._seen:
            self._seen.add(id(value))
            self._todo.append(anchor)
        return b"&" + anchor.key + view

    def _read_anchor(self, anchor: Anchor) -> None:
        """An object, part by part or as a whole."""
        value, path, kind = anchor.get(), anchor.key, anchor.kind
        if kind.name in objects.IN_PARTS:
            self._read_parts(path, value, kind)
        elif kind is objects.DICT and _has_places(value):
            self._read_names(path, value, kind)
            for name, part in list(value.items()):
                if name != "__builtins__":  # exec puts them into its namespace
                    self._read(path, ("k", name), part, value, kind)
        else:
            self._read_contents(path, value, kind)
        if kind is objects.STATE_DICT:
            for name, part in objects.attributes(value).items():
                if type(part) in digests.ATOMS and not name.startswith("_"):
                    self._read(path, ("a", name), part, value, kind)
        elif kind.name not in objects.IN_PARTS and objects.has_attributes(value):
            for name, part in objects.attributes(value).items():
                self._read(path, ("a", name), part, value, kind)

    def _read_parts(self, path: bytes, value: Any, kind: Kind) -> None:
        parts = objects.attributes(value)
        self._read_names(path, value, kind)
        for name, part in parts.items():
            self._read(path, ("a", name), part, value, kind)
        if kind is not objects.FUNCTION:
            if kind in (objects.INSTANCE, objects.MEMBER):
                self._token(type(value))  # its class is the program's, too
            return
        for number, cell in enumerate(value.__closure__ or ()):
            with suppress(ValueError):  # an empty cell
                step = ("c", number, value.__code__.co_freevars[number])
                self._read(path, step, cell.cell_contents, value, kind)
        for number, default in enumerate(value.__defaults__ or ()):
            self._read(path, ("d", number), default, value, kind)
        for name, default in (value.__kwdefaults__ or {}).items():
            self._read(path, ("w", name), default, value, kind)

    def _read_names(self, path: bytes, value: Any, kind: Kind) -> None:
        names = keys_of(value, kind)
        self.places[path, KEYS] = Place(value, KEYS, kind)
        self.digests[path, KEYS] = digests.short(f"{len(names)}\0{chr(0).join(names)}".encode())

    def _read_contents(self, path: bytes, value: Any, kind: Kind) -> None:
        place = (path, CONTENTS)
        self.places[place] = Place(value, CONTENTS, kind)
        self._inside, self._number = place, 0
        try:
            found = objects.digest(kind, value, self._token)
        except TooMuchError:
            raise
        except Exception as e:  # any class may raise anything
            self.unreadable[place] = str(e)
            found = UNREADABLE
        self.digests[place] = found
        self._note_opaque(place)

    def _read_settings(self) -> None:
        for name, setting in settings.of_process().items():
            path = ((SETTINGS, name), CONTENTS)
            self.places[path] = Place(setting, CONTENTS, settings.KIND)
            value = setting.read()
            self.digests[path] = digests.plain(value) or digests.of(value)


def _kept(function: Any, step: tuple[Any, ...]) -> Kept | None:
    """The variable in which a function keeps what a step leads to; None: the function is gone."""
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    name = step[-1]
    if step[0] == "d":
        names = code.co_varnames[: code.co_argcount]
        name = names[len(names) - len(function.__defaults__) + step[1]]
    return code.co_filename, code.co_firstlineno, name


def _is_plain(cls: type) -> bool:
    plain = cls.__module__ == "builtins" or cls in (np.ndarray, functools.partial)
    plain = plain or issubclass(cls, np.generic)
    return plain or is_program_class(cls)


def _has_places(value: Any) -> bool:
    return len(value) <= ITEMS_MAX and all(type(name) is str for name in value)


def _is_hidden(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")
