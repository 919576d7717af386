"""Complete sets of policies by one name, for the command line and the configuration file.

To add one: name what it consists of here. Fields: see SchedulerConfig.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from dq_server.core.config import SchedulerConfig
from dq_server.core.errors import ConfigError
from dq_server.core.fairness import per_user

_MEBF: dict[str, Any] = {"order": "fcfs", "start": "easy", "moldable": True}

SETS: dict[str, dict[str, Any]] = {
    "fcfs": {"order": "fcfs", "start": "fcfs", "resize": "none"},
    "easy": {"order": "fcfs", "start": "easy", "resize": "none"},
    "conservative": {"order": "fcfs", "start": "conservative", "resize": "none"},
    "reshape": {"order": "fcfs", "start": "fcfs", "resize": "reshape"},
    "reshape-model": {"order": "fcfs", "start": "fcfs", "resize": "reshape-model"},
    "dfs": {
        "order": "fcfs",
        "start": "reservations",
        "resize": "none",
        "grant": "dfs",
        "dfs": per_user(500.0),  # Dyn-500 of Prabhakaran et al. 2014
    },
    "mebf-handoff": {**_MEBF, "resize": "handoff"},
    "mebf-spare": {**_MEBF, "resize": "spare"},
    "mebf-intensive": {**_MEBF, "resize": "intensive"},
    "mebf-expand+": {**_MEBF, "resize": "intensive", "mebf_also": "expand"},
    "mebf-shrink+": {**_MEBF, "resize": "intensive", "mebf_also": "shrink"},
}


def named_config(name: str, base: SchedulerConfig | None = None) -> SchedulerConfig:
    """`base` with the policies of the set `name`; ConfigError if there is none."""
    chosen = SETS.get(name)
    if chosen is None:
        known = ", ".join(SETS)
        raise ConfigError(f"unknown policy {name!r}; known: {known}")
    unknown = chosen.keys() - {field.name for field in fields(SchedulerConfig)}
    assert not unknown, f"policy set {name} sets {unknown}, which no configuration has"
    return replace(base or SchedulerConfig(), **chosen)
