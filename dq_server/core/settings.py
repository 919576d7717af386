"""Configurations from settings: from a file's tables, from options, from an old journal.

    [scheduler]                 fields of SchedulerConfig; `policy` names a set (registry.py)
    fit = "2X"                  the short name of a setting that belongs to a feature or policy
    [scheduler.mebf]            the options of a feature or policy: its table (model/options.py)
    [dfs], [environment], [nodes], [pool], [quotas], [watch]
                                tables that stand by themselves: dynamic fairness; what no job
                                inherits; nodes that leave, nodes that are asked for and given back;
                                what users may have; ranks that are missing

Everything is checked here, policies and combinations included; a ConfigError is one line that says
what makes no sense, and where.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, get_type_hints

import dq_server.core.features  # noqa: F401 - they declare options
from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.errors import ConfigError, known_words
from dq_server.core.model.options import SHORT, TABLES, Options, decoded, plain
from dq_server.core.policies import registry
from dq_server.core.policies.base import Policies
from dq_server.core.policies.registry import named_settings

TABLE_OF_ITS_OWN = ("dfs", "environment", "nodes", "pool", "quotas", "watch")
HINTS = get_type_hints(SchedulerConfig)
FIELDS = HINTS.keys() - {"options"}
# Values of older versions that stand in files and journals, and what has replaced them.
REPLACED = {("sweet_spot", "tracked"): "search"}


def configured(base: SchedulerConfig | None = None, **settings: Any) -> SchedulerConfig:
    """`base` with these settings: fields, short names, and tables (as `Options` or mappings)."""
    return from_settings(settings, base)


def from_settings(
    settings: Mapping[str, Any], base: SchedulerConfig | None = None
) -> SchedulerConfig:
    """See `configured`. A setting that nobody knows is a ConfigError."""
    values: dict[str, Any] = {}
    base = base or SchedulerConfig()
    registry.load(str(settings[kind]) for kind in registry.KINDS if kind in settings)
    tables: dict[str, dict[str, Any]] = {name: dict(t) for name, t in base.options.items()}
    for name, value in settings.items():
        if name in FIELDS:
            values[name] = REPLACED.get((name, value), value) if type(value) is str else value
        elif name == "options":
            for table, given in value.items():
                tables.setdefault(table, {}).update(given)
        elif name in TABLES and isinstance(value, Options | Mapping):
            tables[name] = plain(value) if isinstance(value, Options) else dict(value)
        elif name in SHORT:
            table, setting = SHORT[name]
            tables.setdefault(table, {})[setting] = value
        else:
            known = sorted({*FIELDS, "policy", *SHORT, *(TABLES.keys() - {*TABLE_OF_ITS_OWN})})
            raise ConfigError(
                f"unknown setting {name!r} in [scheduler]; {known_words(name, known)}"
            )
    for name, value in values.items():
        values[name] = _checked(name, value)
    options = {name: _differing(name, given) for name, given in tables.items()}
    return replace(base, **values, options={name: t for name, t in options.items() if t})


def _checked(name: str, value: Any) -> Any:
    try:
        return decoded(value, HINTS[name])
    except (TypeError, ValueError) as error:
        raise ConfigError(f"[scheduler] {name}: {error}") from error


def _differing(table: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Checked values of a table that are not the defaults, as plain data."""
    kind = TABLES.get(table)
    if kind is None:
        raise ConfigError(
            f"unknown table [scheduler.{table}]; {known_words(table, sorted(TABLES))}"
        )
    known = [f.name for f in fields(kind)]  # type: ignore[arg-type]  # all are dataclasses
    for name in given:
        if name not in known:
            raise ConfigError(
                f"unknown setting {name!r} in {where(table)}; {known_words(name, known)}"
            )
    try:
        made = decoded(given, kind)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{where(table)} {error}") from error
    made.validate()
    usual = plain(kind())
    return {name: value for name, value in plain(made).items() if value != usual[name]}


def where(table: str) -> str:
    """A table as it stands in a file."""
    return f"[{table}]" if table in TABLE_OF_ITS_OWN else f"[scheduler.{table}]"


def from_tables(data: Mapping[str, Any], **usual: Any) -> SchedulerConfig:
    """From a parsed file; `usual`: settings that the file may override."""
    for table in data:
        if table not in ("scheduler", *TABLE_OF_ITS_OWN):
            # [launch] is taken out before: it is not the scheduler's (live/configuration.py).
            names = sorted(("launch", "scheduler", *TABLE_OF_ITS_OWN))
            known = known_words(f"[{table}]", (f"[{name}]" for name in names))
            raise ConfigError(f"unknown table [{table}]; {known}")
    given = data.get("scheduler", {})
    if not isinstance(given, Mapping):
        raise ConfigError("scheduler is a table: [scheduler]")
    settings = dict(given)
    for table in TABLE_OF_ITS_OWN:
        if table in settings:
            raise ConfigError(
                f"unknown setting {table!r} in [scheduler]; it is a table of its own, [{table}]"
            )
    _check_once(settings)
    name = settings.pop("policy", None)
    base = configured(**usual)
    if name is not None:
        base = from_settings(named_settings(str(name)), base)
    for table in TABLE_OF_ITS_OWN:
        if table in data:
            if not isinstance(data[table], Mapping):
                raise ConfigError(f"{table} is a table: [{table}]")
            settings[table] = data[table]
    registry.load(str(settings[kind]) for kind in registry.KINDS if kind in settings)
    for table, value in settings.items():
        if table in TABLES and isinstance(value, Mapping):
            settings[table] = TABLES[table].read(value)
    config = from_settings(settings, base)
    check(config)
    return config


def _check_once(given: Mapping[str, Any]) -> None:
    """ConfigError for a setting that stands in [scheduler] and in its table: which one counts?"""
    for name, (table, setting) in SHORT.items():
        there = given.get(table)
        if name in given and isinstance(there, Mapping) and setting in there:
            raise ConfigError(
                f"[scheduler] {name} and {where(table)} {setting} are one setting: give one of them"
            )


def from_recorded(config: Mapping[str, Any]) -> SchedulerConfig:
    """A configuration as a journal has it, of this version or of an older one.

    Before 0.2.0 every option was a field of its own. What is not known any more is left out: the
    recorded actions tell whether it mattered.
    """
    known = {*FIELDS, *SHORT, *TABLES, "options"}
    settings = {name: value for name, value in config.items() if name in known}
    return from_settings(settings)


def named_config(name: str, base: SchedulerConfig | None = None) -> SchedulerConfig:
    """`base` with the policies that `name` names (registry.py); ConfigError if there are none."""
    return from_settings(named_settings(name), base)


def check(config: SchedulerConfig) -> Policies:
    """The policies that are named; ConfigError unless all of it makes sense together."""
    config.validate()
    for kind in TABLES.values():
        config.of(kind).suits(config)
    return registry.policies(config)
