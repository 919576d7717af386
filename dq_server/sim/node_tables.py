"""What nodes have, and what jobs ask of them, in a workload written by hand.

[[node]]
count = 2                     # default 1
processors = 4                # default 1
memory = "64G"                # or bytes; default: none that a job could ask for
gpus = 2
features = ["ssd", "a100"]

[[job]]
memory = "4G"                 # for each processor, like gpus
gpus = 1
constraint = "ssd&a100|big"
"""

from __future__ import annotations

import re
from typing import Any

from dq_server.core.model.errors import known_words
from dq_server.core.model.events import NodeJoined
from dq_server.core.model.needs import Needs

KEYS = frozenset({"memory", "gpus", "constraint"})
_AMOUNT = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s*([KMGTP]?)(?:i?B)?", re.IGNORECASE)
_NODE = {"count", "processors", "memory", "gpus", "features"}


def needs(table: dict[str, Any]) -> Needs | None:
    """What a [[job]] asks of its nodes; None: nothing. ValueError if it cannot be read."""
    if not KEYS & table.keys():
        return None
    asked = Needs(_memory(table), _whole(table, "gpus", 0), table.get("constraint", "").strip())
    return None if asked == Needs() else asked


def nodes(tables: Any) -> list[NodeJoined]:
    """The nodes of the [[node]] tables, in order; ValueError if they cannot be read."""
    found: list[NodeJoined] = []
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ValueError("nodes are tables: [[node]]")
    for table in tables:
        if unknown := table.keys() - _NODE:
            wrong = min(unknown)
            raise ValueError(f"unknown key {wrong!r}; {known_words(wrong, sorted(_NODE))}")
        features = table.get("features", [])
        if not isinstance(features, list) or not all(isinstance(word, str) for word in features):
            raise ValueError(f"features = {features!r}: a list of names is needed")
        for _ in range(_whole(table, "count", 1)):
            node = NodeJoined(
                f"n{len(found) + 1}",
                _whole(table, "processors", 1) or 1,
                memory=_memory(table),
                gpus=_whole(table, "gpus", 0),
                features=tuple(features),
            )
            found.append(node)
    return found


def _whole(table: dict[str, Any], key: str, default: int) -> int:
    value = table.get(key, default)
    if type(value) is not int or not 0 <= value <= 100_000:
        raise ValueError(f"{key} = {value!r}: a whole number from 0 is needed")
    return value


def _memory(table: dict[str, Any]) -> int:
    value = table.get("memory", 0)
    if type(value) is int and value >= 0:
        return value
    found = _AMOUNT.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f"memory = {value!r}: give 4G, 512M or a number of bytes")
    return int(float(found[1]) * 1024 ** " KMGTP".index(found[2].upper() or " "))
