"""The journal of a live server, read without one: its events as the core knows them.

The server writes SQLite: events(seq, time, type, body, actions), bodies and actions as JSON
(dq_server/live/journal.py). Here JSON becomes events again by the type hints of the core's
dataclasses, and actions become JSON values to compare with the recorded ones.
"""

from __future__ import annotations

import json
import math
import sqlite3
import types
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from dq_server.core import events
from dq_server.core.actions import Action
from dq_server.core.errors import SchedulerError
from dq_server.core.events import Event
from dq_server.core.scheduler import Scheduler
from dq_server.sim.errors import WorkloadError

EVENT_TYPES: dict[str, Any] = {kind.__name__: kind for kind in get_args(events.Event)}


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a journal; `actions` as parsed JSON."""

    seq: int
    time: float
    event: Event
    actions: list[Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first event that does not lead to what was recorded."""

    seq: int
    event: str
    recorded: list[Any]
    ours: list[Any] | str  # an error's text if the event was refused


def read_journal(path: Path) -> Iterator[Entry]:
    """The entries of a journal in order; WorkloadError names the file and the event at fault."""
    if path.is_dir():
        raise WorkloadError(f"{path} is a folder: name the journal, {path / 'journal.sqlite'}")
    if not path.is_file():
        raise WorkloadError(f"{path}: no such journal")
    try:
        db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    except sqlite3.Error as error:
        raise WorkloadError(f"{path}: {error}") from error
    try:
        rows = db.execute("SELECT seq, time, type, body, actions FROM events ORDER BY seq")
        for seq, time, kind, body, actions in rows:
            try:
                event = decoded(json.loads(body), EVENT_TYPES[kind])
                yield Entry(seq, time, event, json.loads(actions))
            except (KeyError, TypeError, ValueError) as error:
                raise WorkloadError(f"{path}: event {seq} ({kind}) is damaged: {error}") from error
    except sqlite3.Error as error:
        raise WorkloadError(f"{path}: not a journal ({error})") from error
    finally:
        db.close()


def replay(entries: Iterator[Entry]) -> tuple[int, Difference | None]:
    """Handle the events again: how many led to the recorded actions, and the first that did not."""
    scheduler = Scheduler()
    count = 0
    for entry in entries:
        name = type(entry.event).__name__
        try:
            ours = plain_actions(scheduler.handle(entry.event, entry.time))
        except SchedulerError as error:
            return count, Difference(entry.seq, name, entry.actions, str(error))
        if ours != entry.actions:
            return count, Difference(entry.seq, name, entry.actions, ours)
        count += 1
    return count, None


def plain_actions(actions: list[Action]) -> list[Any]:
    """Actions as the journal has them: [[type, fields], ...]."""
    return [[type(action).__name__, plain(action)] for action in actions]


def plain(value: Any) -> Any:
    """A value of the core as JSON has it; what JSON cannot hold (infinity) is null there."""
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return value


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def decoded(value: Any, hint: Any) -> Any:
    """JSON as the type that `hint` says; TypeError or ValueError if it is none."""
    origin, args = get_origin(hint), get_args(hint)
    if is_dataclass(hint) and isinstance(hint, type):
        return _decoded_dataclass(value, hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(value)
    if origin in (Union, types.UnionType):
        return _decoded_union(value, args)
    if origin is Literal:
        return value
    if origin is tuple:
        kinds = [args[0]] * len(value) if args[1:] == (...,) else args
        return tuple(decoded(item, kind) for item, kind in zip(value, kinds, strict=True))
    if origin is list:
        return [decoded(item, args[0]) for item in value]
    if origin is not None and issubclass(origin, Mapping):
        return {_key(key, args[0]): decoded(item, args[1]) for key, item in value.items()}
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is Any or type(value) is hint:
        return value
    raise TypeError(f"{value!r} is not {hint}")


def _key(key: str, hint: Any) -> Any:
    return int(key) if hint is int else decoded(key, hint)


def _decoded_union(value: Any, args: tuple[Any, ...]) -> Any:
    if value is None and type(None) in args:
        return None
    for kind in args:
        if kind is type(None):
            continue
        try:
            return decoded(value, kind)
        except (TypeError, ValueError, KeyError):
            continue
    raise TypeError(f"{value!r} is none of {args}")


def _decoded_dataclass(value: Any, kind: type) -> Any:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r} is no {kind.__name__}")
    hints = _hints(kind)
    given = {}
    for f in fields(kind):
        if f.name in value:
            given[f.name] = decoded(value[f.name], hints[f.name])
        elif f.default is MISSING and f.default_factory is MISSING:
            raise KeyError(f"{kind.__name__} has no {f.name}")
    return kind(**given)
