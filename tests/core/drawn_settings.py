"""Settings of a scheduler, drawn: any policies beside each other that the scheduler takes."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

from dq_server.core.model.errors import ConfigError
from dq_server.core.model.launching import Launching
from dq_server.core.settings import check, configured

LIMITS = {"processors": 6, "jobs": 3, "queued": 8, "hours": 0.05, "window_s": 600.0}
DELAYS = {"single_delay_s": 40.0, "target_delay_s": 60.0}

# Setting -> what it may be; each is left at its default in half of all lives.
CHOICES: dict[str, tuple[Any, ...]] = {
    "samples": (1, 2),
    "discard": (0, 2),
    "threshold": (0.0, 0.2),
    "settle": (0, 1),
    "farewells": (True,),
    "launching": tuple(Launching),
    "keep_ended": (0, 2, 5),
    "keep_decisions": (0, 5),
    "walltime_warning_s": (0.0, 20.0),
    "sweet_spot": ("search",),
    "moldable": (True,),
    "reservation_depth": (1, 2),
    "drain_priority": (5,),
    "grids": ("spot", "never"),
    "fit": ("rigid", "noX", "2X", "infX", "infX+c"),
    "profile_grace_s": (0.0, 5.0),
    "history": ("always", "never"),
    "dependency_failed": ("hold",),
    "backfill_smaller": (False,),
    "mebf_theta": (0.1,),
    "mebf_share": (0.8,),
    "mebf_partial": (False,),
    "mebf_also": ("expand", "shrink"),
    "spot": ({"retry": 2, "share": 0.5, "window": 8},),
    "watch": tuple({"limit_s": 5.0, "action": action} for action in ("warn", "abort", "kill")),
    "nodes": ({"leave_within_s": 5.0, "end_lead_s": 10.0},),
    "quotas": (
        {"user": {"*": LIMITS}},
        {"user": {"ada": {**LIMITS, "jobs": 1}}, "group": {"g": {**LIMITS, "members": ["bob"]}}},
    ),
    "dfs": tuple(
        {"policy": policy, "interval_s": 100.0, "decay": 0.5, "user": {"*": DELAYS}, **more}
        for policy in ("single", "target", "single-and-target")
        for more in ({}, {"one_node": True}, {"user": {"bob": {"dyn_delay_perm": False}}})
    ),
    "priority": ({"users": {"ada": 3.0}, "size_per_processor": 0.5, "half_life_s": 100.0},),
}  # fmt: skip
POOL: dict[str, tuple[Any, ...]] = {
    "min": (0, 1),
    "idle_s": (0.0, 30.0),
    "start_s": (0.0, 20.0),
    "start_within_s": (40.0,),
    "retry_s": (5.0,),
    "retry_max_s": (20.0, 600.0),
    "lasts_s": (None, 200.0),
    "depth": (1, 100),
    "grow": (False, True),
    "gain": (0.1, 0.4),
}


def drawn_settings(rng: Random) -> dict[str, Any]:
    """Drawn until the scheduler takes them together."""
    while True:
        settings: dict[str, Any] = {
            "start": rng.choice(("fcfs", "easy", "easy", "conservative", "reservations")),
            "resize": rng.choice(
                ("none", "reshape", "reshape", "reshape-model", "handoff", "spare", "intensive")
            ),
            "grant": rng.choice(("always", "always", "dfs", "dfs", "never")),
            "order": rng.choice(("fcfs", "fcfs", "priority", "fairshare")),
        }
        settings |= {k: rng.choice(some) for k, some in CHOICES.items() if rng.random() < 0.5}
        with suppress(ConfigError):
            check(configured(**settings))
            return settings


def drawn_pool(rng: Random) -> dict[str, Any]:
    """Options of a pool; in half of all lives there is none."""
    if rng.random() < 0.5:
        return {}
    drawn = {name: rng.choice(some) for name, some in POOL.items()}
    return {"max": rng.randint(1, 4), "processors": rng.randint(1, 4), **drawn}
