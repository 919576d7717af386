"""MEBF with real ranks: a running malleable job gives way to one that waits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.live import Live

pytestmark = [pytest.mark.live, pytest.mark.mpi]

GROWING = ["--", "python", "-m", "tests.live.growing"]


@pytest.mark.parametrize(
    ("policy", "starts_on", "waiting", "shrinks_to"),
    [
        ("mebf-spare", 4, 1, 3),  # nothing is idle
        ("mebf-shrink+", 3, 2, 2),  # one is idle and does not help the job that waits
    ],
)
def test_a_malleable_job_is_shrunk_for_one_that_waits(
    live: Live, tmp_path: Path, policy: str, starts_on: int, waiting: int, shrinks_to: int
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f'[scheduler]\npolicy = "{policy}"\n')
    live.up(4, "--config", config)
    sizes = ["-n", starts_on, "--min", 1, "--max", starts_on, "--chain", "multiple"]
    turns = ["--iterations", 1000, "--seconds", 0.4, "--stop", tmp_path / "stop"]
    job = live.submit(*sizes, "--estimate", "60s", *GROWING, *turns)
    live.wait(job, lambda j: j["remap_points"] > 0)
    other = live.submit("-n", waiting, "--kind", "rigid", "--estimate", "5s", "--", "sleep", "0.1")
    assert live.wait_end(other)["state"] == "done"
    (tmp_path / "stop").touch()
    end = live.wait_end(job)
    assert end["state"] == "done", live.dq("logs", job, "--err", code=None)
    assert [stay["processors"] for stay in end["sizes"]][:2] == [starts_on, shrinks_to]
    story = json.loads(live.dq("why", job, "--json"))["story"]
    shrink = next(line for line in story if line["what"] == "shrink")
    assert (shrink["code"], shrink["figures"]["head"]) == ("mebf_shrink", other)
    assert json.loads(live.dq("sim", "replay", live.home.journal, "--json"))["same"]
