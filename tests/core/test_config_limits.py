"""Figures of the configuration: the last that makes sense, and the first that makes none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dq_server.core.model.errors import ConfigError
from dq_server.core.model.fairness import DfsConfig, DfsLimits
from dq_server.core.model.options import TABLES
from dq_server.core.policies.order_priority import PriorityConfig
from dq_server.core.settings import check, configured, from_recorded

INF = float("inf")
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
    ],
    ids=str,
)
def test_the_first_figure_that_makes_none_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        check(configured(**bad))


FAR = """
from dataclasses import dataclass
from dq_server.core.model.options import Options
from dq_server.core.policies.resize_none import NoResize

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
