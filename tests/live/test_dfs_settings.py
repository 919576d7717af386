"""Fig. 6 of Prabhakaran et al. 2014 as a configuration file."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from dq_client.base.errors import UsageError
from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.events import Configured
from dq_server.core.model.requests import DfsConfig, DfsLimits
from dq_server.live.configuration import read_config

FIG_6 = """
[scheduler]
start = "reservations"
grant = "dfs"

[dfs]
policy = "single-and-target"
interval_s = "06:00:00"
decay = 0.4

[dfs.user]
user01 = { dyn_delay_perm = true, target_delay_s = 3600, single_delay_s = 0 }
user02 = { dyn_delay_perm = false }
user03 = { dyn_delay_perm = true, target_delay_s = 0, single_delay_s = "00:30:00" }
user04 = { dyn_delay_perm = true, target_delay_s = "02:00:00", single_delay_s = "00:15:00" }

[dfs.group.group05]
target_delay_s = "04:00:00"
[dfs.group.group06]
dyn_delay_perm = false
[dfs.class.batch]
single_delay_s = 60
"""


def load(tmp_path: Path, text: str) -> SchedulerConfig:
    path = tmp_path / "config.toml"
    path.write_text(text)
    return read_config(path, required=True)


def test_what_is_no_text_is_one_line_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b"[dfs]\n\xff")
    with pytest.raises(UsageError, match=r"config\.toml: no text in UTF-8: .* at byte 6"):
        read_config(path, required=True)


def test_fig_6_loads(tmp_path: Path) -> None:
    config = load(tmp_path, FIG_6)
    dfs = config.of(DfsConfig)
    assert (config.grant, dfs.policy, dfs.interval_s, dfs.decay) == (
        "dfs", "single-and-target", 21_600, 0.4,
    )  # fmt: skip
    assert dfs.user["user04"] == DfsLimits(True, single_delay_s=900, target_delay_s=7200)
    assert dfs.user["user03"] == DfsLimits(True, single_delay_s=1800)
    assert dfs.group == {
        "group05": DfsLimits(target_delay_s=14_400),
        "group06": DfsLimits(dyn_delay_perm=False),
    }
    assert dfs.job_class == {"batch": DfsLimits(single_delay_s=60)}


def test_the_journal_keeps_it(tmp_path: Path) -> None:
    event = Configured(load(tmp_path, FIG_6))
    assert msgspec.json.decode(msgspec.json.encode(event), type=Configured) == event


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[dfs]\npolicy = 'fair'", "[dfs] policy: 'fair' is none of 'none', 'single'"),
        ("[dfs]\ninterval_s = 'soon'", "[dfs] interval_s = 'soon': seconds, or a text HH:MM:SS"),
        ("[dfs]\ndecay = 2", "decay = 2"),
        ("[dfs]\ndecoy = 2", "unknown setting 'decoy' in [dfs]; did you mean 'decay'?"),
        ("[dfs.user.u]\nlimit = 2", "unknown setting 'limit' in [dfs.user.u]"),
        ("[dfs.user]\nu = 2", "[dfs.user.NAME]"),
        ("[dfs.qos.q]\nsingle_delay_s = -1", "qos q: single_delay_s = -1"),
        ("[dfs.team.x]\nsingle_delay_s = 1", "unknown setting 'team' in [dfs]"),
        ("dfs = 3", "dfs is a table"),
        ("[scheduler]\ngrant = 'maybe'", "unknown grant policy 'maybe'; known: always, dfs, never"),
        ("[scheduler.dfs]\ndecay = 0.5", "unknown setting 'dfs' in [scheduler]"),
    ],
)
def test_one_clear_line_for_what_makes_no_sense(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(tmp_path, text)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
