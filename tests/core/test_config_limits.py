"""Figures of the configuration: the last that makes sense, and the first that makes none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.errors import ConfigError
from dq_server.core.model.options import TABLES
from dq_server.core.model.pool import NODES_MAX
from dq_server.core.model.requests import DfsConfig, DfsLimits
from dq_server.core.model.tracking import SpotOptions
from dq_server.core.policies.orders import PriorityConfig
from dq_server.core.settings import check, configured, from_recorded

INF = float("inf")
WEEK_S, YEAR_S = 7 * 86400.0, 365 * 86400.0
QUOTAS = ("processors", "jobs", "queued", "hours")
MEBF = {"resize": "spare", "start": "easy"}


@pytest.mark.parametrize(
    "good",
    [
        {"samples": 1},
        {"discard": 0},
        {"settle": 0},
        {"threshold": 0.0},
        {"threshold": 0.999},
        {"keep_ended": 0},
        {"reservation_depth": 1},
        {"profile_grace_s": 0.0},
        {"history_tolerance": 0.01},
        {"mebf_theta": 0.0},
        {"mebf_theta": 1.0},
        {"mebf_share": 0.01},
        {"mebf_share": 0.99},
        {"mebf_gamma": 1.0},
        {"mebf_spare_ratio": 0.0},
        {"mebf_rho": 0.0},
        {"mebf_rho": 0.99},
        {**MEBF, "mebf_also": "expand"},
        {**MEBF, "start": "fcfs"},
        {"priority": PriorityConfig(half_life_s=0.5)},
        {"priority": PriorityConfig(fairshare=0.0, shares={"ada": 0.0})},
        {"dfs": DfsConfig(interval_s=0.5, decay=0.0)},
        {"dfs": DfsConfig(decay=1.0, reservation_delay_depth=1)},
        {"dfs": DfsConfig(user={"ada": DfsLimits(single_delay_s=0.0, target_delay_s=0.5)})},
        *({"spot": {"retry": 1}}, {"spot": {"growth": 1.0}}, {"spot": {"share": 0.999}}),
        *({"spot": {"share": 0.001}}, {"spot": {"window": 8}}, {"spot": {"window": 100}}),
        *(
            {"watch": {"limit_s": 0.001}},
            {"watch": {"action": "warn"}},
            {"watch": {"action": "kill"}},
        ),
        *({"nodes": {"leave_within_s": 0.0}}, {"nodes": {"end_lead_s": WEEK_S}}),
        *({"meetings": {"most": 1}}, {"drain_priority": 0}, {"sweet_spot": "search"}),
        *({"pool": {"max": NODES_MAX}}, {"pool": {"min": 2, "max": 2}}, {"pool": {"depth": 1}}),
        *({"pool": {"idle_s": 0.0}}, {"pool": {"start_s": 0.0}}, {"pool": {"start_within_s": 1.0}}),
        *({"pool": {"retry_s": 1.0, "retry_max_s": 1.0}}, {"pool": {"lasts_s": 1.0}}),
        *({"pool": {"idle_s": YEAR_S}}, {"pool": {"lasts_s": YEAR_S}}, {"pool": {"gain": 0.999}}),
        *({"pool": {"gain": 0.0}}, {"pool": {"shape": {"processors": 1}}}),
        {"pool": {"shape": {"processors": NODES_MAX}}},
        *({"quotas": {"user": {"ada": {name: 0}}}} for name in QUOTAS),
        {"quotas": {"user": {"*": {"window_s": 0.001}}}},
        {"quotas": {"group": {"g": {"members": ["ada"], "jobs": 1}}}},
    ],
    ids=str,
)
def test_the_last_figure_that_makes_sense_is_accepted(good: dict[str, Any]) -> None:
    check(configured(**good))


@pytest.mark.parametrize(
    "bad",
    [
        {"samples": 0},
        {"discard": -1},
        {"settle": -1},
        {"threshold": -0.01},
        {"threshold": 1.0},
        {"keep_ended": -1},
        {"reservation_depth": 0},
        {"profile_grace_s": -0.5},
        {"profile_grace_s": float("nan")},
        {"fit": "3X"},
        {"grids": "all"},
        {"history": "some"},
        {"history_tolerance": 0.0},
        {"dependency_failed": "kill"},
        {"mebf_theta": -0.01},
        {"mebf_theta": 1.01},
        {"mebf_share": 0.0},
        {"mebf_share": 1.0},
        {"mebf_gamma": 0.99},
        {"mebf_spare_ratio": -0.01},
        {"mebf_rho": -0.01},
        {"mebf_rho": 1.0},
        {**MEBF, "mebf_also": "both"},
        {"mebf_also": "expand"},
        {**MEBF, "start": "conservative"},
        {"priority": PriorityConfig(half_life_s=0.0)},
        {"priority": PriorityConfig(fairshare=-0.5)},
        {"priority": PriorityConfig(shares={"ada": -0.5})},
        {"dfs": DfsConfig(interval_s=0.0)},
        {"dfs": DfsConfig(interval_s=INF)},
        {"dfs": DfsConfig(decay=-0.01)},
        {"dfs": DfsConfig(decay=1.01)},
        {"dfs": DfsConfig(reservation_delay_depth=0)},
        {"dfs": DfsConfig(user={"ada": DfsLimits(single_delay_s=-0.5)})},
        {"dfs": DfsConfig(qos={"*": DfsLimits(target_delay_s=INF)})},
        *({"spot": {"retry": 0}}, {"spot": {"growth": 0.999}}, {"spot": {"share": 0.0}}),
        *({"spot": {"share": 1.0}}, {"spot": {"window": 7}}, {"spot": {"window": 101}}),
        *({"watch": {"limit_s": 0.0}}, {"watch": {"action": "wait"}}),
        *({"nodes": {"leave_within_s": -0.5}}, {"nodes": {"leave_within_s": WEEK_S + 1}}),
        *({"nodes": {"end_lead_s": -0.5}}, {"nodes": {"end_lead_s": WEEK_S + 1}}),
        *({"meetings": {"most": 0}}, {"sweet_spot": "kept"}, {"threshold": 1.5}),
        *({"pool": {"max": -1}}, {"pool": {"max": NODES_MAX + 1}}, {"pool": {"min": 3, "max": 2}}),
        *({"pool": {"min": -1}}, {"pool": {"depth": 0}}, {"pool": {"idle_s": -0.5}}),
        *({"pool": {"start_s": -0.5}}, {"pool": {"start_within_s": 0.999}}),
        *({"pool": {"retry_s": 0.999}}, {"pool": {"retry_s": 5.0, "retry_max_s": 4.999}}),
        *({"pool": {"retry_max_s": YEAR_S + 1}}, {"pool": {"lasts_s": 0.999}}),
        *({"pool": {"lasts_s": YEAR_S + 1}}, {"pool": {"idle_s": YEAR_S + 1}}),
        *({"pool": {"gain": -0.001}}, {"pool": {"gain": 1.0}}),
        *({"pool": {"shape": {"processors": n}}} for n in (0, NODES_MAX + 1)),
        *({"quotas": {"user": {"ada": {name: -1}}}} for name in QUOTAS),
        *({"quotas": {"user": {"ada": {"window_s": value}}}} for value in (0.0, INF)),
        {"quotas": {"user": {"ada": {"hours": INF}}}},
        {"quotas": {"user": {"ada": {"members": ["bob"]}}}},
        {"quotas": {"group": {"g": {"jobs": 1}}}},
        {"quotas": {"group": {"*": {"members": ["ada"]}}}},
        *({"spot": {"retry": "often"}}, {"pool": {"min": [1]}}, {"spot": {"unheard": 1}}),
    ],
    ids=str,
)
def test_the_first_figure_that_makes_none_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        check(configured(**bad))


def test_options_of_a_journal_that_have_another_type_now_are_refused_with_their_table() -> None:
    config = SchedulerConfig(options={"spot": {"retry": "often"}})
    with pytest.raises(ConfigError, match=r"\[scheduler.spot\]"):
        config.of(SpotOptions)


FAR = """
from dataclasses import dataclass
from dq_server.core.model.options import Options
from dq_server.core.policies.base import NoResize

@dataclass(frozen=True)
class FarOptions(Options):
    table = "far"
    reach: int = 1

class Far(NoResize):
    pass
"""


@pytest.mark.parametrize("recorded", [True, False])
def test_the_table_of_a_policy_from_elsewhere_is_known_once_the_policy_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded: bool
) -> None:
    """A server that reads its journal has not imported the policy yet."""
    name = f"far_{recorded}".lower()
    (tmp_path / f"{name}.py").write_text(FAR)
    monkeypatch.syspath_prepend(tmp_path)
    try:
        if recorded:
            found = from_recorded({"resize": f"{name}:Far", "options": {"far": {"reach": 2}}})
        else:
            found = configured(resize=f"{name}:Far", far={"reach": 2})
        assert found.options == {"far": {"reach": 2}}
    finally:
        TABLES.pop("far", None)
