"""What a feature or a policy can be told, declared in the file that uses it.

A feature or policy derives a frozen dataclass from `Options`. Its table in the configuration is
[scheduler.TABLE]; a setting that is used often may have a short name in [scheduler] itself, too
(`short`). settings.py reads them; `SchedulerConfig.of(SomeOptions)` gives them back, checked.

`plain` gives values of the core as plain data (what JSON and TOML can hold), `decoded` reads them
by their type hints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from dq_server.core.model.config import SchedulerConfig

import math
import re
import types
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Literal, Union, get_args, get_origin, get_type_hints

from dq_server.core.model.errors import ConfigError, known_words

TABLES: dict[str, type[Options]] = {}
SHORT: dict[str, tuple[str, str]] = {}  # setting of [scheduler] -> table and setting in it


class Options:
    """Base of all options: frozen dataclasses in which every field has a default."""

    table: ClassVar[str]
    short: ClassVar[Mapping[str, str]] = {}  # setting of [scheduler] -> field

    def __init_subclass__(cls) -> None:
        TABLES[cls.table] = cls
        for name, field in cls.short.items():
            SHORT[name] = cls.table, field

    @classmethod
    def read(cls, table: Mapping[str, Any]) -> Mapping[str, Any]:
        """The values of a table as users write them, as values of the fields."""
        return table

    def validate(self) -> None:
        """Raise ConfigError with one clear line if a figure makes no sense."""

    def suits(self, config: SchedulerConfig) -> None:
        """Raise ConfigError if this makes no sense beside the rest of the configuration."""


def named_tables(table: str, by_name: Any, known: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The tables [TABLE.NAME] of a file by name, copied; ConfigError unless all keys are known."""
    if not isinstance(by_name, Mapping) or not all(
        isinstance(given, Mapping) for given in by_name.values()
    ):
        raise ConfigError(f"there is a table for each name: [{table}.NAME]")
    for name, given in by_name.items():
        for key in given:
            if key not in known:
                where = f"[{table}.{quoted(name)}]"
                raise ConfigError(f"unknown setting {key!r} in {where}; {known_words(key, known)}")
    return {name: dict(given) for name, given in by_name.items()}


def quoted(name: str) -> str:
    """A name as a part of a table's name in a file."""
    return name if re.fullmatch(r"[\w-]+", name) else f'"{name}"'


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
    """Plain data as the type that `hint` says; TypeError or ValueError if it is none."""
    origin, args = get_origin(hint), get_args(hint)
    if is_dataclass(hint) and isinstance(hint, type):
        return _decoded_dataclass(value, hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(value)
    if origin in (Union, types.UnionType):
        return _decoded_union(value, args)
    if origin is Literal:
        if value not in args:
            raise ValueError(f"{value!r} is none of {', '.join(map(repr, args))}")
        return value
    if origin in (tuple, list) and not isinstance(value, list | tuple):
        raise TypeError(f"{value!r} is no list")  # a text is one, of letters
    if origin is tuple:
        kinds = [args[0]] * len(value) if args[1:] == (...,) else args
        return tuple(decoded(item, kind) for item, kind in zip(value, kinds, strict=True))
    if origin is list:
        return [decoded(item, args[0]) for item in value]
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            raise TypeError(f"{value!r} is no table")
        return {_key(key, args[0]): decoded(item, args[1]) for key, item in value.items()}
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is Any or type(value) is hint:
        return value
    raise TypeError(f"{value!r} is not {_name(hint)}")


def _name(hint: Any) -> str:
    words = {float: "a number", int: "a whole number", bool: "true or false", str: "a text"}
    return words.get(hint) or (hint.__name__ if isinstance(hint, type) else str(hint))


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
    kinds = " or ".join(_name(kind) for kind in args if kind is not type(None))
    raise TypeError(f"{value!r} is not {kinds}")


def _decoded_dataclass(value: Any, kind: type) -> Any:
    if not isinstance(value, Mapping):
        raise TypeError(f"{value!r} is no {kind.__name__}")
    hints = _hints(kind)
    given = {}
    for f in fields(kind):
        if f.name in value:
            try:
                given[f.name] = decoded(value[f.name], hints[f.name])
            except (TypeError, ValueError) as error:
                raise type(error)(f"{f.name}: {error}") from error
        elif f.default is MISSING and f.default_factory is MISSING:
            raise KeyError(f"{kind.__name__} has no {f.name}")
    return kind(**given)
