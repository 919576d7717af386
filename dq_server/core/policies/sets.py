"""Policies by one name, for the command line and the configuration file.

A name stands for a complete set (SETS), or is a sum of single policies, one for each question:
`easy+reshape` starts jobs by EASY and resizes them by ReSHAPE. What a sum does not name is FCFS
order, FCFS start, no resizing, and dynamic requests granted always. Who gives way is then up to the
resize policy. A user's own policy is named
`package.module:Class` (registry.py), alone or in a sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dq_server.core.model.errors import ConfigError, known_words
from dq_server.core.model.fairness import per_user
from dq_server.core.policies.registry import KINDS, kind_of, known

_MEBF: dict[str, Any] = {"order": "fcfs", "start": "easy", "moldable": True}
_PLAIN: dict[str, Any] = {"order": "fcfs", "start": "fcfs", "resize": "none", "grant": "always",
                          "shrink": "resize"}  # fmt: skip


def _sharing(**options: Any) -> dict[str, Any]:
    """A strategy of sharing.py. A job that gave way may expand at once: `settle` is 0."""
    both = {"order": "fcfs", "start": "sharing", "resize": "sharing"}
    return {**both, "moldable": True, "settle": 0, "sharing": options}


_HAND_ON = ("pool", "agreement", "steal")

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
    **{f"min-{how}": _sharing(hand_on=how) for how in _HAND_ON},
    **{
        f"preferred-{how}": _sharing(start="preferred", balance="preferred", hand_on=how)
        for how in _HAND_ON
    },
    **{f"average-{how}": _sharing(balance="average", hand_on=how) for how in _HAND_ON},
    "keep-preferred": _sharing(start="preferred", balance="preferred", beyond="never"),
    "shortest-first": _sharing(
        start="preferred", balance="remaining", hand_on="steal", shortest=True
    ),
}


def named_settings(name: str) -> Mapping[str, Any]:
    """The settings that a name stands for; ConfigError if it names nothing."""
    if name in SETS:
        return {"shrink": "resize", **SETS[name]}
    parts = name.split("+")
    settings, named = dict(_PLAIN), dict.fromkeys(KINDS, "")
    for part in parts:
        kind = _kind(part, name)
        if named[kind]:
            both = f"{named[kind]} and {part}"
            raise ConfigError(f"policy {name!r} names two {kind} policies, {both}")
        named[kind] = settings[kind] = part
    return settings


def _kind(part: str, name: str) -> str:
    """Which question a single policy answers. "fcfs" orders and starts: it means the start."""
    try:
        return kind_of(part)
    except KeyError:
        singles = "; ".join(f"{kind}: {', '.join(known(kind))}" for kind in KINDS if known(kind))
        what = f"unknown policy {name!r}" if part == name else f"unknown part {part!r} of {name!r}"
        shown = f"{', '.join(SETS)}; or a sum of single ones ({singles}), or package.module:Class"
        names = [*SETS, *(name for kind in KINDS for name in known(kind))]
        raise ConfigError(f"{what}; {known_words(part, names, shown)}") from None
