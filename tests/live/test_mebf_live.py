"""MEBF with real ranks: a running malleable job gives way to one that waits (rules: tests/core)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.live import Live

pytestmark = [pytest.mark.live, pytest.mark.mpi]

GROWING = ["--", "python", "-m", "tests.live.growing"]


def test_a_malleable_job_is_shrunk_for_one_that_waits(live: Live, tmp_path: Path) -> None:
    """One processor is idle and does not help the job that waits."""
    config = tmp_path / "config.toml"
    config.write_text('[scheduler]\npolicy = "mebf-shrink+"\n')
    live.up(4, "--config", config)
    sizes = ["-n", 3, "--min", 1, "--max", 3, "--chain", "multiple"]
    turns = ["--iterations", 1000, "--seconds", 0.4, "--stop", tmp_path / "stop"]
    job = live.submit(*sizes, "--estimate", "60s", *GROWING, *turns)
    live.wait(job, lambda j: j["remap_points"] > 0)
    other = live.submit("-n", 2, "--kind", "rigid", "--estimate", "5s", "--", "sleep", "0.1")
    assert live.wait_end(other)["state"] == "done"
    (tmp_path / "stop").touch()
    end = live.wait_end(job)
    assert end["state"] == "done", live.dq("logs", job, "--err", code=None)
    assert [stay["processors"] for stay in end["sizes"]][:2] == [3, 2]
    story = json.loads(live.dq("why", job, "--json"))["story"]
    shrink = next(line for line in story if line["what"] == "shrink")
    assert (shrink["code"], shrink["figures"]["head"]) == ("mebf_shrink", other)
    assert json.loads(live.dq("sim", "replay", live.home.journal, "--json"))["same"]
