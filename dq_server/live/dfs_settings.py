"""The [dfs] table of the server's configuration: dynamic fairness (core/fairness.py).

    [dfs]
    policy = "single-and-target"      # none, single, target
    interval_s = "06:00:00"           # every time: seconds, or a text HH:MM:SS
    decay = 0.4
    reservation_delay_depth = 5

    [dfs.user.user04]                 # also [dfs.group.X], account, class, qos; "*": all others
    target_delay_s = "02:00:00"
    single_delay_s = 900
    [dfs.group.group06]
    dyn_delay_perm = false

The words are those of Prabhakaran et al. 2014, Fig. 6. The limits count only under
`grant = "dfs"` in [scheduler].
"""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any, TypeVar

import msgspec

from dq_server.core.errors import ConfigError
from dq_server.core.fairness import KINDS, DfsConfig, DfsLimits

_CLOCK = re.compile(r"(\d+):([0-5]\d):([0-5]\d)")
_T = TypeVar("_T")
_IN_FILE = {"class": "job_class"}  # `class` cannot be the name of a field


def parse_dfs(table: Any) -> DfsConfig:
    """From parsed TOML; ConfigError with one line that names table and setting."""
    if not isinstance(table, dict):
        raise ConfigError("dfs is a table: [dfs]")
    values: dict[str, Any] = {}
    for key, value in table.items():
        name = _IN_FILE.get(key, key)
        if name in KINDS and key != "job_class":
            values[name] = _limits(key, value)
        else:
            values[key] = value
    _known(values, DfsConfig, "[dfs]", KINDS)
    return _convert(values, DfsConfig, "[dfs]")


def _limits(kind: str, table: Any) -> dict[str, DfsLimits]:
    if not isinstance(table, dict) or not all(isinstance(v, dict) for v in table.values()):
        raise ConfigError(f"limits have a table for each name: [dfs.{kind}.NAME]")
    found = {}
    for name, values in table.items():
        where = f"[dfs.{kind}.{name}]"
        _known(values, DfsLimits, where)
        found[name] = _convert(values, DfsLimits, where)
    return found


def _known(values: dict[str, Any], kind: type, where: str, but: tuple[str, ...] = ()) -> None:
    known = [field.name for field in fields(kind)]
    for name in values:
        if name not in known:
            shown = ", ".join([k for k in known if k not in but] + (["KIND.NAME"] if but else []))
            raise ConfigError(f"unknown setting {name!r} in {where}; known: {shown}")


def _convert(values: dict[str, Any], kind: type[_T], where: str) -> _T:
    plain = {k: _seconds(v, k, where) if k.endswith("_s") else v for k, v in values.items()}
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as e:
        raise ConfigError(f"{where} {e}") from e


def _seconds(value: Any, name: str, where: str) -> Any:
    """HH:MM:SS as seconds; anything else as it is."""
    if not isinstance(value, str):
        return value
    clock = _CLOCK.fullmatch(value)
    if clock is None:
        raise ConfigError(f"{where} {name} = {value!r}: seconds, or a text HH:MM:SS")
    hours, minutes, seconds = map(int, clock.groups())
    return float(3600 * hours + 60 * minutes + seconds)
